"""Where a script's tensors are: each way of moving a model, and what a GPU would reject."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.traced_scripts import trace_of

pytestmark = pytest.mark.slow

MOVES = """
import torch

class Net(torch.nn.Module):
    def __init__(self, **options):
        super().__init__()
        self.convolution = torch.nn.Conv2d(3, 8, 3, **options)
        self.norm = torch.nn.BatchNorm2d(8, **options)

    def forward(self, x):
        return self.norm(self.convolution(x))

gpu = torch.device("cuda", 0)
moved = [
    Net().to("cuda"),
    Net().to(gpu),
    Net().to(0),
    Net().to(device="cuda"),
    Net().to(device=gpu, dtype=torch.float16),
    Net().to(device=0, memory_format=torch.channels_last),
    Net().to(memory_format=torch.channels_last).to(device=gpu),
    Net().to(torch.ones(1, device=gpu)),
    Net().cuda(),
    Net().cuda(0),
    Net().half().cuda(),
    Net(device=gpu),
]
with torch.device("cuda"):
    moved.append(Net())
for model in moved:
    assert all(tensor.is_cuda for tensor in (*model.parameters(), *model.buffers()))
assert moved[4].convolution.weight.dtype == torch.float16
stays = Net()
assert not any(tensor.is_cuda for tensor in (*stays.parameters(), *stays.buffers()))
before = torch.cuda.memory_allocated()
half = torch.nn.Linear(64, 100, bias=False).cuda().half()
assert torch.cuda.memory_allocated() - before == 2 * 64 * 100
half.weight.data = half.weight.data.float()
assert torch.cuda.memory_allocated() - before == 4 * 64 * 100
optimizer = torch.optim.SGD(moved[0].parameters(), lr=0.1)
for _ in range(3):
    moved[0](torch.zeros(2, 3, 8, 8, device=gpu)).sum().backward()
    optimizer.step()
"""


def test_a_model_moves_however_the_script_says_it(tmp_path: Path) -> None:
    trace = trace_of(tmp_path, MOVES)
    assert trace.steps == 3
    assert "device-mismatch" not in {note.code for note in trace.assumptions}


MIXED = """
import torch

model = torch.nn.Linear(8, 2).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
scale = torch.tensor(0.5)
for _ in range(3):
    batch, target = torch.zeros(4, 8), torch.zeros(4, dtype=torch.int64)
    output = model({batch})
    loss = torch.nn.functional.cross_entropy(output * scale, target.cuda())
    loss.backward()
    optimizer.step()
"""


@pytest.mark.parametrize(("batch", "line"), [("batch", 9), ("batch.cuda()", None)])
def test_a_batch_that_stays_on_the_cpu_is_noted_with_its_line(
    tmp_path: Path, batch: str, line: int | None
) -> None:
    trace = trace_of(tmp_path, MIXED.format(batch=batch))
    found = [note for note in trace.assumptions if note.code == "device-mismatch"]
    assert [note.line for note in found] == ([] if line is None else [line])
    assert all("linear got a tensor on the GPU and one on the CPU" in note.message for note in found)


TYPES = """
import torch

norm = torch.nn.RMSNorm(64).cuda()
optimizer = torch.optim.SGD(norm.parameters(), lr=0.1)
x = torch.ones(8, 64, device="cuda", dtype=torch.bfloat16)
for _ in range(2):
    normalized = norm(x)
    rotated = x.float().cos().type_as(x)
    assert normalized.is_cuda and rotated.is_cuda
    (normalized + rotated).sum().backward()
    optimizer.step()
host = torch.ones(2)
assert host.type_as(x).is_cuda and not x.type_as(host).is_cuda
"""


def test_a_tensor_that_takes_on_the_type_of_another_one_is_where_that_is(tmp_path: Path) -> None:
    assert trace_of(tmp_path, TYPES).assumptions == []
