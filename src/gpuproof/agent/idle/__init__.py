"""Notices that a machine for interactive work is idle: no kernel is busy, no GPU works, no shell is open.

`decision.py` decides without clocks and files; the modules `*_activity.py` and `shell_sessions.py` read one source each. The
agent's file does this without a job, too: `python3 gpuproof-agent.pyz --idle-watch`, see `main.py`.
"""
