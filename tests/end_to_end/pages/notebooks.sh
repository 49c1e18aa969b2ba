export BROWSER=true   # opens nothing
