"""Detection of a script that hangs: no progress on any GPU or in its log for `stall_timeout`.

`progress.py` notes when there was progress, and `watch.py` prints where all processes are before they are stopped.
"""

FAULTHANDLER_VARIABLE = "PYTHONFAULTHANDLER"
"""With this variable, Python prints the stacks of all threads of a process that SIGABRT ends."""
