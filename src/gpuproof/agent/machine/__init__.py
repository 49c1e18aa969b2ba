"""The program of a machine for interactive work: a Jupyter server, or nothing, until the machine is idle.

The agent starts it in place of a script, so the rest of a job is as always: contract, monitoring, limits, verdict.
"""
