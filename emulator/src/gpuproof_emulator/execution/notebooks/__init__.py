"""Notebook instances: machines that run lifecycle scripts and, where it is installed, Jupyter.

`supervisor.py` has one thread for each change of state; `machine.py` is the program on a machine; `presigned.py` and
`jupyter_relay.py` lead a browser to its Jupyter.
"""
