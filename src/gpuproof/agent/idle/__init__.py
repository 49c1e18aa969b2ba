"""Notices that a machine for interactive work is idle: no kernel is busy, no GPU works, no shell is open.

`decision.py` decides without clocks and files; `jupyter_activity.py` reads Jupyter, `watch.py` the GPUs and shells. The
agent's file does this without a job, too: `python3 gpuproof-agent.pyz --idle-watch`, see `main.py`.
"""
