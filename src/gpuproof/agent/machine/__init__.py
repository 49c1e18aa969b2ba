"""The program of a machine for interactive work: a Jupyter server, or nothing, until the machine is idle.

The agent starts it in place of a script, so the rest of a job is as always: contract, monitoring, limits, verdict. `agent/idle/`
decides when no kernel, GPU or shell has been active for long enough. The work folder is `/opt/ml/checkpoints`; port and token go into
a file, which the EC2 host uploads, and the client opens the tunnel.
"""
