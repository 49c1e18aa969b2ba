"""What PyTorch's functions about the GPU answer in a trace: each assertion is within the traced script."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.traced_scripts import trace_of

pytestmark = pytest.mark.slow

TRAIN = """
model = torch.nn.Linear(4, 4).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(3):
    model(torch.ones(2, 4).cuda()).sum().backward()
    optimizer.step()
"""

TENSOR_TYPES = """
import numpy as np
import torch

Tensor, LongTensor = torch.cuda.FloatTensor, torch.cuda.LongTensor
noise = Tensor(np.zeros((32, 100)))
assert isinstance(noise, torch.cuda.FloatTensor) and not isinstance(noise, torch.cuda.HalfTensor)
assert (noise.type(), noise.shape, noise.is_cuda) == ("torch.cuda.FloatTensor", (32, 100), True)
assert Tensor(32, 1).fill_(1.0).shape == (32, 1)
assert Tensor(torch.Size([3, 2])).shape == (3, 2)
assert Tensor([1.0, 2.0]).shape == (2,)
assert LongTensor([1]).dtype == torch.int64
on_host = torch.ones(32)
for wanted in (torch.cuda.HalfTensor, "torch.cuda.HalfTensor"):
    moved = on_host.type(wanted)
    assert (moved.is_cuda, moved.dtype) == (True, torch.float16)
assert not moved.type(torch.FloatTensor).is_cuda
mean = noise.new_tensor([0.1, 0.2, 0.3]).view(-1, 1, 1)
assert (mean.shape, mean.is_cuda, mean.dtype) == ((3, 1, 1), True, torch.float32)
assert not noise.new_tensor([1], device="cpu").is_cuda
torch.set_default_tensor_type("torch.cuda.FloatTensor")
assert torch.zeros(2).is_cuda
torch.set_default_tensor_type(torch.FloatTensor)
assert not torch.zeros(2).is_cuda
"""

CALLS = """
import torch

device = torch.device("cuda", 0)
stream = torch.cuda.Stream(device=device)
torch.cuda.current_stream(device=device).wait_stream(stream)
with torch.cuda.stream(stream), torch.cuda.device(device):
    event = torch.cuda.Event(enable_timing=True)
    event.record(stream=stream)
assert torch.cuda.memory_allocated(device=device) == torch.cuda.memory.max_memory_allocated() == 0
kept = torch.ones(1024, device=device)
assert torch.cuda.memory_reserved(device=device) == torch.accelerator.memory_allocated() >= 4096
statistics = torch.cuda.memory_stats(device=device)
assert (statistics["reserved_bytes.all.peak"], statistics["num_alloc_retries"]) == (4096, 0)
free, total = torch.cuda.mem_get_info(device=device)
assert total - free == 4096
torch.cuda.reset_peak_memory_stats(device=device)
torch.cuda.set_per_process_memory_fraction(0.5, device=device)
torch.cuda.cudart().cudaProfilerStart()
assert torch.bfloat16 in torch.accelerator.get_device_capability()["supported_dtypes"]
with torch.accelerator.device_index(0):
    pass
"""


@pytest.mark.parametrize("script", [TENSOR_TYPES, CALLS], ids=["tensor types", "functions"])
def test_pytorch_answers_for_the_gpu(tmp_path: Path, script: str) -> None:
    assert trace_of(tmp_path, script + TRAIN).steps == 3


def test_distributions_take_values_that_are_unknown(tmp_path: Path) -> None:
    script = """
import torch
from torch.distributions import Categorical, Normal

policy = torch.nn.Linear(4, 3).cuda()
optimizer = torch.optim.Adam(policy.parameters())
for _ in range(10):
    actions = Categorical(logits=policy(torch.randn(8, 4).cuda()))
    noise = Normal(torch.zeros(8).cuda(), torch.ones(8).cuda()).rsample()
    loss = -(actions.log_prob(actions.sample()) * noise).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
    assert trace_of(tmp_path, script).steps == 3


def test_losses_and_gradients_are_finite(tmp_path: Path) -> None:
    script = """
import torch

model = torch.nn.Linear(4, 3).cuda()
optimizer = torch.optim.Adam(model.parameters())
for _ in range(10):
    loss = model(torch.randn(8, 4).cuda()).pow(2).mean()
    assert torch.isfinite(loss) and loss.isfinite().all()
    if torch.isnan(loss) or not torch.isfinite(loss).item() or (~torch.isfinite(loss)).any():
        raise SystemExit(1)
    optimizer.zero_grad()
    loss.backward()
    assert all(torch.isfinite(parameter.grad).all() for parameter in model.parameters())
    assert not (model.weight > 1).all()
    optimizer.step()
"""
    assert trace_of(tmp_path, script).steps == 3
