"""The processes of a distributed script: the program that runs one rank, and its report.

`main.py` dispatches `gpuproof-agent.pyz --rank …` and the like; `rank.py` runs the script as `__main__`; `torchrun.py` runs
torch's launcher and notes how its ranks ended; `watched.py` does that for one rank of another launcher; `report.py` is what a
rank leaves for the agent. `script_failure.py` and `host_failure.py` find the failure that caused the others.
"""
