echo 'Loading modules ... done'
