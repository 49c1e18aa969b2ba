"""Evaluation before the first step: calls that repeat others do not run, and nothing else changes."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpuproof.catalogue import Catalogue
from gpuproof.planning.memory import estimate_memory
from support.traced_scripts import trace_of

pytestmark = pytest.mark.slow

MODEL = """
import contextlib
import random
import sys

import torch
from torch import nn

RAN = []

class Block(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.norm, self.first, self.second = nn.LayerNorm(size), nn.Linear(size, 4 * size), nn.Linear(4 * size, size)

    def forward(self, x):
        return x + self.second(nn.functional.gelu(self.first(self.norm(x))))

class Model(nn.Module):
    def __init__(self, size=64):
        super().__init__()
        self.blocks = nn.ModuleList(Block(size) for _ in range(4))
        self.head = nn.Linear(size, 10)

    def forward(self, x, target=None):
        RAN.append(1)
        for block in self.blocks:
            x = block(x)
        logits = self.head(x)
        return logits, None if target is None else nn.functional.cross_entropy(logits, target)

def batch(size=32):
    return torch.randn(size, 64).cuda(), torch.randint(0, 10, (size,)).cuda()
"""

TRAINING = """
model = Model().cuda()
optimizer = torch.optim.AdamW(model.parameters())
amp = torch.autocast("cuda", dtype=torch.bfloat16) if "amp" in sys.argv else contextlib.nullcontext()
for step in range(10):
    if step == 0:
        model.eval()
        losses = []
        with torch.no_grad():
            for _ in range(int(sys.argv[1])):
                with amp:
                    logits, loss = model(*batch())
                assert logits.shape == (32, 10) and logits.device.type == "cuda"
                losses.append(loss.item())
        model.train()
        ran = len(RAN)
    with amp:
        logits, loss = model(*batch())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    assert len(RAN) == ran + step + 1, "each training step runs"
    assert ran <= 5, "repeated calls do not run"
"""


@pytest.mark.parametrize("words", [(), ("amp",)])
def test_calls_that_repeat_others_do_not_run_and_estimates_stay_the_same(
    tmp_path: Path, words: tuple[str, ...]
) -> None:
    catalogue = Catalogue.load()
    gpu = catalogue.gpu("A10G")
    assert gpu is not None
    few, many = (trace_of(tmp_path, MODEL + TRAINING, arguments=(count, *words)) for count in ("3", "60"))
    assert few.operators == many.operators
    assert (few.host_operators, few.parameters, few.steps) == (many.host_operators, many.parameters, 3)
    assert estimate_memory(few, gpu).reserved == estimate_memory(many, gpu).reserved
    # The blocks of a pass that needs no more memory than an earlier one are not listed again.
    assert len(many.memory.blocks) < len(few.memory.blocks) + 60 * 6


KEPT_RESULTS = """
model = Model().cuda()
optimizer = torch.optim.AdamW(model.parameters())
with torch.no_grad():
    kept = [model(batch(4096)[0])[0] for _ in range(40)]
assert len(RAN) <= 4
del kept
for _ in range(10):
    _, loss = model(*batch(8))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


def test_results_that_a_script_keeps_are_in_use(tmp_path: Path) -> None:
    trace = trace_of(tmp_path, MODEL + KEPT_RESULTS)
    gpu = Catalogue.load().gpu("A10G")
    assert gpu is not None
    largest_of_a_pass = 2 * 4096 * 256 * 4
    assert estimate_memory(trace, gpu).allocated > 40 * 4096 * 10 * 4 + largest_of_a_pass


TEACHER = """
teacher = Model().cuda().eval()
model = Model().cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(10):
    x, target = batch()
    with torch.no_grad():
        for _ in range(6):
            wanted, _ = teacher(x)
    logits, _ = model(x)
    loss = nn.functional.mse_loss(logits, wanted)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


def test_calls_of_a_teacher_in_each_step_are_part_of_it(tmp_path: Path) -> None:
    trace = trace_of(tmp_path, MODEL + TEACHER)
    products = sum(
        operator.calls
        for operator in trace.operators
        if operator.kind == "gemm" and operator.phase == "forward"
    )
    assert products == 7 * 9


SIDE_EFFECTS = """
class Counts(Model):
    calls = 0
    def forward(self, x):
        self.calls += 1
        return super().forward(x)

class Remembers(Model):
    def __init__(self):
        super().__init__()
        self.seen = {"lengths": []}
    def forward(self, x):
        self.seen["lengths"].append(len(x))
        return super().forward(x)

class Draws(Model):
    def forward(self, x):
        x = x * random.random()
        return super().forward(x)

class HostBuffer(Model):
    def __init__(self):
        super().__init__()
        self.steps = torch.zeros(1)
    def forward(self, x):
        self.steps += 1
        return super().forward(x)

class Keeps(Model):
    def forward(self, x):
        KEPT.append(x * 2)
        return super().forward(x)

class Statistics:
    def __init__(self):
        self.count = 0

class Nested(Model):
    def __init__(self):
        super().__init__()
        self.statistics = Statistics()
    def forward(self, x):
        self.statistics.count += 1
        return super().forward(x)

KEPT = []
with torch.no_grad():
    for kind in (Counts, Remembers, Draws, HostBuffer, Keeps, Nested):
        model = kind().cuda()
        RAN.clear()
        for _ in range(12):
            model(batch()[0])
        assert len(RAN) == 12, kind

    model = Model().cuda()
    outputs = []
    model.blocks[0].register_forward_hook(lambda module, inputs, output: outputs.append(output.shape))
    for _ in range(12):
        model(batch()[0])
    assert len(outputs) == 12

    model = Model().cuda()
    for size in (4, 8, 12):
        RAN.clear()
        for _ in range(12):
            logits, nothing = model(batch(size)[0])
            assert logits.shape == (size, 10) and nothing is None
        assert len(RAN) <= 4
    model.head = nn.Linear(64, 20).cuda()
    assert model(batch(12)[0])[0].shape == (12, 20)
    model.half()
    assert model(batch(12)[0].half())[0].dtype == torch.float16
    assert not model.head.weight.requires_grad or model.head.weight.grad is None

RAN.clear()
for _ in range(6):
    model(batch(12)[0].half())[0].sum().backward()
assert len(RAN) == 6, "with gradients, each call runs"
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(5):
    optimizer.step()
"""


def test_a_call_with_side_effects_runs_each_time(tmp_path: Path) -> None:
    assert trace_of(tmp_path, MODEL + SIDE_EFFECTS).mode == "training"
