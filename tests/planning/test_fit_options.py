"""What would make a script fit: traced again with each change, against what follows from the model's sizes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

import gpuproof
from gpuproof.errors import UsageError
from gpuproof.planning.estimates import FitOption
from gpuproof.planning.fit_options import eight_bit
from gpuproof.planning.tracing import TraceRequest, trace_script
from gpuproof.trace.document import CATEGORIES, Memory, Trace

SCRIPT = """
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.down = nn.Linear(512, 4096), nn.Linear(4096, 512)
        self.drop = nn.Dropout(0.1)

    def forward(self, x):
        return x + self.down(self.drop(torch.relu(self.up(x))))


data = TensorDataset(torch.randn(8000, 512), torch.randint(0, 10, (8000,)))
loader = DataLoader(data, batch_size=800)


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList(Block() for _ in range(4))
        self.head = nn.Linear(512, 10)

    def forward(self, x):
        x = x[:, None].repeat(1, 200, 1)
        for block in self.blocks:
            x = block(x)
        return self.head(x.mean(1))


model = Model().cuda()
optimizer = torch.optim.AdamW(model.parameters())
for inputs, labels in loader:
    loss = nn.functional.cross_entropy(model(inputs.cuda()), labels.cuda())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


@pytest.fixture(scope="module")
def script(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("script") / "train.py"
    path.write_text(SCRIPT)
    return path


@pytest.mark.slow
def test_a_script_that_does_not_fit_has_options_that_do(script: Path) -> None:
    plan = gpuproof.plan(script, fit="T4", on="ec2")
    (target,) = (gpu for gpu in plan.gpus if gpu.candidate.name == "T4")
    assert target.fit.fit == "does-not-fit"
    assert plan.fit_options is not None
    options = {option.code: option for option in plan.fit_options.options}
    assert set(options) >= {"amp", "checkpointing", "smaller-batch", "8-bit-optimizer"}
    before = target.memory.allocated
    assert all(option.memory.allocated <= before for option in options.values())
    # Four blocks hold five activations of a block each; recomputed, one block does at a time.
    assert options["checkpointing"].memory.allocated < 0.6 * before
    assert options["checkpointing"].step.step.value > target.step.step.value
    assert options["amp"].memory.allocated < 0.85 * before
    assert options["smaller-batch"].batch == target.largest_batch
    assert options["smaller-batch"].fit.fit == "fits"
    fits = [option.fit.fit == "fits" for option in plan.fit_options.options]
    assert fits == sorted(fits, reverse=True)
    fitting = [_per_sample(option) for option in plan.fit_options.options if option.fit.fit == "fits"]
    assert fitting == sorted(fitting)


def _per_sample(option: FitOption) -> float:
    return option.step.step.value / (option.batch or 1)


@pytest.mark.slow
def test_changes_are_traced_and_recomputation_costs_time(script: Path) -> None:
    request = TraceRequest(script)
    plain = trace_script(request)
    changed = trace_script(replace(request, change="checkpointing"))
    assert (plain.checkpointing, changed.checkpointing) == (False, True)
    # Of six products of a block, one is done again: the backward pass needs the input of the last one, not its result.
    assert changed.flops == pytest.approx(plain.flops * 7 / 6, rel=0.02)
    mixed = trace_script(replace(request, change="amp"))
    assert (plain.precision, mixed.precision) == ("float32", "amp-float16")
    assert {operator.dtype for operator in mixed.operators if operator.kind == "gemm"} == {"float16"}
    assert mixed.flops == pytest.approx(plain.flops, rel=0.02)


@pytest.mark.slow
def test_a_gpu_that_was_not_planned_is_refused(script: Path) -> None:
    with pytest.raises(UsageError, match="not planned for a GPU RX580"):
        gpuproof.plan(script, fit="RX580")


def test_8_bit_state_takes_a_byte_and_the_factors_of_its_blocks() -> None:
    optimizer, parameter = CATEGORIES.index("optimizer"), CATEGORIES.index("parameter")
    blocks = [(4 << 20, parameter), (4 << 20, optimizer), (400, optimizer), (4 << 20, optimizer)]
    memory = Memory(blocks, [1, 2, 3, 4, -4, 0])
    trace = Trace("torch", "2.13.0", "training", 1, [], memory, 1, 1 << 20, 1 << 20, 4 << 20)
    sizes = [size for size, _ in eight_bit(trace).memory.blocks]
    # State of a million numbers; small state and temporaries stay.
    assert sizes == [4 << 20, (1 << 20) + (1 << 20) // 256 * 4, 400, 4 << 20]
