"""Looks at this machine's GPU stack from the bottom up and says what is true of it.

Each file in `checks/` is one check: a reader that touches the machine and a pure `evaluate` that turns its reading
into findings. `runner.py` calls them in order and stops asking above a layer that is broken.
"""
