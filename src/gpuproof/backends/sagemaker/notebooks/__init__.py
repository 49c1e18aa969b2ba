"""Notebook instances: creates, starts, stops, opens and deletes them, and lists what they cost.

`planner.py` decides everything and creates nothing, `create.py` executes the plan and waits, `changes.py` starts, stops and
deletes, `listing.py` reads. `lifecycle_script.py` builds the script with which an instance watches itself.
"""
