"""Jobs of several processes and hosts: who is a member, where the reports of the hosts meet, and the verdict on the job."""
