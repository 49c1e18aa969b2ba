"""Kernels of a few microseconds with gaps between them, as of a model that is too small: python tiny_kernels.py SECONDS."""

import sys
import time

import torch
from kernels import until

x = torch.ones(256, device="cuda")
for _ in until(float(sys.argv[1])):
    for _ in range(200):
        x = x * 1.0001
        x = torch.tanh(x)
        time.sleep(20e-6)
    torch.cuda.synchronize()
