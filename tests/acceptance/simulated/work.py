"""Stands for work on the GPU: the stub NVML library shows a busy one while the process in the file `gpu/pid` lives."""

import os
import time


def use_the_gpu():
    """Be seen by the agent."""
    with open("{gpu}/pid", "w") as file:
        file.write(str(os.getpid()))
    enough = os.path.getsize("{gpu}/looks") + 6
    while os.path.getsize("{gpu}/looks") < enough:
        time.sleep(0.05)
    return dict.fromkeys(("torch", "cuda", "gpu"))
