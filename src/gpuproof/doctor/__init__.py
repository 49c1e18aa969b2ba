"""Check this machine's GPU stack from the bottom up and report the first layer that fails.

A check is one module under `checks/`: a `read` function that touches the machine and a pure `evaluate` function that turns
its reading into findings. `registry.py` lists the checks in order, `runner.py` runs them and stops above a layer that
failed, `readings/` has what several checks read, and `formats/` renders the report.
"""
