"""`rt.watch()`: proof for a script that something else started, from within the script.

`watch.py` is the function, `process_exit.py` finds the exit code with which this process ends and replaces it. `connection.py` talks to the
monitor process, which samples outside of this interpreter; `shared_connection.py` has the one connection of this process, through which
`usage.py` reads utilization.
"""
