"""How a job is carried out: instances are folders, containers are processes with a private `/opt/ml`.

`supervisor.py` has a thread for each job; `training.py` and `processing.py` are what that thread does; `host.py` is one
instance's container, seen from here, and `container.py` the program in between, which forks the agent's reaper.
"""
