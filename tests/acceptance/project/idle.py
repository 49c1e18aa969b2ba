"""Work for the CPU on a machine with a GPU."""

import time

import torch

values = torch.randn(256, 256)
end = time.time() + 60
while time.time() < end:
    values = (values @ values).tanh()
