"""Checks of GPUs that take readings and return findings; `gpuproof doctor` and the host of a run on EC2 use them.

Each module has a pure `evaluate`. What is not in NVML's answer, it reads itself, below a root folder.
"""
