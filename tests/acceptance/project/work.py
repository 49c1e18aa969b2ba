"""Matrix products on the GPU for a minute and a half."""

import time

import torch


def use_the_gpu():
    """Use it; returns the versions of PyTorch and of its CUDA."""
    values = torch.randn(4096, 4096, device="cuda")
    end = time.time() + 90
    while time.time() < end:
        for _ in range(20):
            values = (values @ values).tanh()
        torch.cuda.synchronize()
    return {"torch": torch.__version__, "cuda": torch.version.cuda, "gpu": torch.cuda.get_device_name()}
