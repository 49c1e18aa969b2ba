"""Readings of this machine's GPUs and processes, which never raise.

A value that cannot be read is `None`, and the reason is recorded once. `nvml.py` and `processes.py` read; `sampler.py` samples four
times a second at first, then once; `aggregate.py` and `gpu_stats.py` add up in bounded memory. `checks/` are checks of the GPUs' state
that the agent and `gpuproof doctor` share.
"""
