"""The processes of a distributed script: the program that runs one rank, and its report.

torchrun and mpirun start `gpuproof-agent.pyz --rank train.py` (14 ms of CPU), which runs the script as `__main__` and writes its
exception to `ranks/rank-N.json`. `main.py` dispatches `--rank` and the like; `rank.py` runs the script; `torchrun.py` runs torch's
launcher and adds ranks that were killed; mpirun reports the end of a rank only in words, so `watched.py` forks the rank and waits for
it. `report.py` is what a rank leaves for the agent; `script_failure.py` and `host_failure.py` find the failure that caused the others.
"""
