"""A private `/opt/ml` for the script, and the reaper process that ends everything the script leaves behind.

The reaper (`reaper.py`) lives in the script's mount namespace, where `/opt/ml` is the run's folder (`opt_ml_mounts.py`). It adopts
what the script leaves behind, and ends it when the script ends or the agent is killed. Between agent and reaper is a backstop
process, so that nothing survives when any two of the three are killed; a control group (`util/cgroup.py`), where the host allows
one, ends the rest when all three are.
"""
