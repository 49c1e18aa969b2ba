"""What scripts do before they train: passes with gradients that warm up the GPU, and searches of the learning rate or the batch size."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpuproof.catalogue import Catalogue
from gpuproof.planning.memory import estimate_memory
from gpuproof.trace.document import Trace
from support.traced_scripts import trace_of

pytestmark = pytest.mark.slow

MODEL = """
import copy
import sys

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

COUNT = int(sys.argv[1])
DATA = TensorDataset(torch.zeros(4096, 64), torch.zeros(4096, dtype=torch.int64))
model = nn.Sequential(*(nn.Sequential(nn.Linear(64, 64), nn.ReLU()) for _ in range(6)), nn.Linear(64, 10)).cuda()

def loss_of(x, y):
    return nn.functional.cross_entropy(model(x.cuda()), y.cuda())

def train(optimizer, size=32):
    for x, y in DataLoader(DATA, size):
        loss = loss_of(x, y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
"""

WARM_UP = """
for _ in range(COUNT):
    loss = loss_of(torch.zeros(8, 64), torch.zeros(8, dtype=torch.int64))
    loss.backward()
    print(loss.item())
    model.zero_grad(set_to_none={set_to_none})
train(torch.optim.AdamW(model.parameters()))
"""

WITHOUT_TRAINING = """
for _ in range(COUNT):
    loss = loss_of(torch.zeros(8, 64), torch.zeros(8, dtype=torch.int64))
    loss.backward()
    model.zero_grad()
"""

SEARCH = """
def best_rate(low=1e-6, high=1.0):
    weights = copy.deepcopy(model.state_dict())
    optimizer = torch.optim.SGD(model.parameters(), lr=low)
    rates, losses = [], []
    for index, (x, y) in enumerate(DataLoader(DATA, 4)):
        if index == COUNT:
            break
        loss = loss_of(x, y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        rates.append(optimizer.param_groups[0]["lr"])
        losses.append(loss.item())
        for group in optimizer.param_groups:
            group["lr"] *= (high / low) ** (1 / 40)
    model.load_state_dict(weights)
    return rates[losses.index(min(losses))] if rates else low

rate = best_rate()
"""
TRAINING = "train(torch.optim.AdamW(model.parameters(), rate))\n"

SCHEDULED = """
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
scheduler = {scheduler}
for step, (x, y) in enumerate(DataLoader(DATA, 32)):
    loss = loss_of(x, y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    scheduler.step()
    assert step < 3, "the first steps are those of the training"
"""

LIGHTNING = """
import sys

import lightning
import torch
from lightning.pytorch.tuner import Tuner
from torch.utils.data import DataLoader, TensorDataset

class Model(lightning.LightningModule):
    def __init__(self, lr=1e-3, batch_size=16):
        super().__init__()
        self.save_hyperparameters()
        self.net = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 10))

    def training_step(self, batch, index):
        return torch.nn.functional.cross_entropy(self.net(batch[0]), batch[1])

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), self.hparams.lr)

    def train_dataloader(self):
        data = TensorDataset(torch.zeros(4096, 64), torch.zeros(4096, dtype=torch.int64))
        return DataLoader(data, self.hparams.batch_size)

model = Model()
trainer = lightning.Trainer(accelerator="gpu", devices=1, max_epochs=2, logger=False, enable_checkpointing=False)
tuner = Tuner(trainer)
{search}
trainer.fit(model)
"""


def codes(trace: Trace) -> set[str]:
    return {note.code for note in trace.assumptions}


@pytest.mark.parametrize("set_to_none", [True, False])
def test_passes_before_the_optimizer_exists_are_no_training(tmp_path: Path, set_to_none: bool) -> None:
    script = MODEL + WARM_UP.format(set_to_none=set_to_none)
    few, many = (trace_of(tmp_path, script, arguments=(count,)) for count in ("3", "40"))
    assert (many.optimizer, many.input.samples, many.steps) == ("AdamW", 32, 3)
    assert few.operators == many.operators
    gpu = Catalogue.load().gpu("A10G")
    assert gpu is not None
    assert estimate_memory(few, gpu).reserved == estimate_memory(many, gpu).reserved


def test_passes_that_no_training_follows_are_what_is_planned(tmp_path: Path) -> None:
    trace = trace_of(tmp_path, MODEL + WITHOUT_TRAINING, arguments=("20",))
    assert (trace.mode, trace.optimizer, trace.steps) == ("training", None, 3)


def test_the_plan_is_for_the_training_after_a_search_of_the_learning_rate(tmp_path: Path) -> None:
    without, trace = (
        trace_of(tmp_path, MODEL + SEARCH + TRAINING, arguments=(count,)) for count in ("0", "40")
    )
    assert (trace.optimizer, trace.input.samples, trace.steps) == ("AdamW", 32, 3)
    assert trace.operators == without.operators
    assert (trace.parameters, trace.findings) == (without.parameters, without.findings)
    (note,) = [note for note in trace.assumptions if note.code == "rate-search"]
    assert "40 steps" in note.message
    assert "rate-search" not in codes(without)


def test_a_search_that_no_training_follows_is_what_is_planned(tmp_path: Path) -> None:
    trace = trace_of(tmp_path, MODEL + SEARCH, arguments=("40",))
    assert (trace.optimizer, trace.input.samples, trace.steps) == ("SGD", 4, 3)
    assert "rate-search" not in codes(trace)


@pytest.mark.parametrize(
    "scheduler",
    [
        "torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: (step + 1) / 100)",
        "torch.optim.lr_scheduler.LinearLR(optimizer, 0.5, total_iters=20)",
        "torch.optim.lr_scheduler.LinearLR(optimizer, 1 / 3, total_iters=5000)",
        "torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.9)",
        "torch.optim.lr_scheduler.OneCycleLR(optimizer, 0.1, total_steps=1000)",
        "torch.optim.lr_scheduler.ConstantLR(optimizer, 1.0)",
    ],
)
def test_a_rate_that_a_training_raises_or_lowers_is_no_search(tmp_path: Path, scheduler: str) -> None:
    trace = trace_of(tmp_path, MODEL + SCHEDULED.format(scheduler=scheduler), arguments=("0",))
    assert trace.steps == 3
    assert not {"rate-search", "ended-early"} & codes(trace)


@pytest.mark.parametrize("mode", ["exponential", "linear"])
def test_steps_of_lightnings_search_of_the_learning_rate_are_no_training(tmp_path: Path, mode: str) -> None:
    pytest.importorskip("lightning")
    trace = trace_of(
        tmp_path, LIGHTNING.format(search=f"tuner.lr_find(model, num_training=30, mode='{mode}')")
    )
    assert trace.steps == 3
    (note,) = [note for note in trace.assumptions if note.code == "rate-search"]
    assert "30 steps" in note.message


def test_lightnings_search_of_the_batch_size_is_left_out(tmp_path: Path) -> None:
    pytest.importorskip("lightning")
    trace = trace_of(tmp_path, LIGHTNING.format(search="tuner.scale_batch_size(model, mode='binsearch')"))
    assert (trace.steps, trace.input.samples) == (3, 16)
    (note,) = [note for note in trace.assumptions if note.code == "batch-size-search"]
    assert "16" in note.message
