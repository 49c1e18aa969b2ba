"""Execution of jobs and endpoints: instances are folders, containers are processes with a private `/opt/ml`.

`host.py` is one instance and its container; `container.py` is the program between the two, which forks the agent's
reaper. `jobs/supervisor.py` runs each job in a thread; `endpoints/registry.py` keeps the endpoints in service.
"""
