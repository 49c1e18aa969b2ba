"""`gpuproof watch -- COMMAND`: starts a command that notices nothing of it, and watches it until it ends.

`command.py` has the life of a command. It inherits everything, or it runs on a pseudo-terminal (`live_command.py`, `leader.py`, `relay.py`), so that
`live.py` can draw a line below its output. `init.py` is process 1 of a container.
"""
