"""Training of a residual network of large matrix products: python training.py SECONDS SHARE [IDLE_SECONDS].

It pauses after each step, so that it runs at SHARE of the fastest rate of the same steps; the verdict's MFU says how much that is of the
GPU's peak. Afterwards it keeps the GPU for IDLE_SECONDS without using it.
"""

import sys
import time

import torch
from kernels import until

from gpuproof import runtime as rt

WIDTH, LAYERS, BATCH, FASTEST_OF = 8192, 4, 8192, 5

seconds, share = float(sys.argv[1]), float(sys.argv[2])
half = torch.bfloat16 if torch.cuda.get_device_capability()[0] >= 8 else torch.float16
layers = torch.nn.ModuleList(torch.nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(LAYERS)).to(
    "cuda", half
)
optimizer = torch.optim.SGD(layers.parameters(), lr=1e-6)
batch = torch.randn(BATCH, WIDTH, device="cuda", dtype=half) / 100
# Forward and backward, two operations for each multiplication with its addition; the first layer has no gradient of its input.
flops = 2.0 * BATCH * WIDTH * WIDTH * (3 * LAYERS - 1)


def step() -> float:
    begin = time.monotonic()
    x = batch
    for layer in layers:
        x = x + torch.relu(layer(x))
    x.float().mean().backward()
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    torch.cuda.synchronize()
    return time.monotonic() - begin


step()
fastest = min(step() for _ in range(FASTEST_OF))
for _ in until(seconds):
    took = step()
    rt.log_throughput(BATCH, flops=flops, precision=str(half).removeprefix("torch."))
    time.sleep(max(0.0, fastest / share - took))
if len(sys.argv) > 3:
    time.sleep(float(sys.argv[3]))
