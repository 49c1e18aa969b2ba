"""Loops of Hugging Face's Trainer, Lightning and Accelerate, and ranks of torchrun."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from support.optional_packages import skip_without
from support.timed_scripts import TimedScripts, run_timed

skip_without("torch", "transformers", "accelerate", "lightning")

pytestmark = pytest.mark.slow

HEAD = """
import torch
from torch.nn.functional import cross_entropy
from torch.utils.data import DataLoader, Dataset

def work(times):
    x = torch.ones(64, 64)
    for _ in range(times):
        x = torch.tanh(x @ x)

class Rows(Dataset):
    def __init__(self, count, times): self.count, self.times = count, times
    def __len__(self): return self.count
    def __getitem__(self, i):
        work(self.times)
        return {"x": torch.randn(8), "labels": i % 2}

class Model(torch.nn.Module):
    def __init__(self, work_in_evaluation=0):
        super().__init__()
        self.linear, self.times = torch.nn.Linear(8, 2), work_in_evaluation
    def forward(self, x, labels):
        if not self.training: work(self.times)
        logits = self.linear(x)
        return {"loss": cross_entropy(logits, labels), "logits": logits}
"""
TRAINER = """
from transformers import Trainer, TrainingArguments
arguments = TrainingArguments(
    "out", num_train_epochs=3, per_device_train_batch_size=4, report_to=[], use_cpu=True, disable_tqdm=True,
    save_strategy="epoch", eval_strategy="epoch",
)
trainer = Trainer(model, arguments, train_dataset=train, eval_dataset=held_out)
trainer.train()
"""
LIGHTNING = """
import lightning
class Module(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.model = model
    def training_step(self, batch, index): return self.model(**batch)["loss"]
    def validation_step(self, batch, index): self.log("loss", self.model(**batch)["loss"])
    def configure_optimizers(self): return torch.optim.SGD(self.parameters(), 0.1)
trainer = lightning.Trainer(
    accelerator="cpu", max_epochs=3, logger=False, enable_progress_bar=False, enable_model_summary=False, num_sanity_val_steps=0,
)
trainer.fit(Module(), DataLoader(train, 4), DataLoader(held_out, 4))
"""
ACCELERATE = """
from accelerate import Accelerator
accelerator = Accelerator(cpu=True)
optimizer = torch.optim.SGD(model.parameters(), 0.1)
loader = DataLoader(train, 4)
model, optimizer, batches, held_out_batches = accelerator.prepare(model, optimizer, loader, DataLoader(held_out, 4))
for epoch in range(3):
    for batch in batches:
        accelerator.backward(model(**batch)["loss"])
        optimizer.step()
        optimizer.zero_grad()
    model.eval()
    with torch.no_grad():
        for batch in held_out_batches: model(**batch)
    model.train()
    accelerator.save_state("state")
"""
STYLES = {"transformers": TRAINER, "lightning": LIGHTNING, "accelerate": ACCELERATE}
LOOPS = pytest.mark.parametrize("loop", STYLES)


@pytest.fixture(scope="module")
def time_steps() -> Iterator[TimedScripts]:
    scripts = TimedScripts("torch", "transformers.trainer", "lightning.pytorch", "accelerate")
    yield scripts
    scripts.close()


def prepare(train: str, held_out: str, model: str = "Model()") -> str:
    return f"{HEAD}train, held_out = {train}, {held_out}\nmodel = {model}\n"


@LOOPS
def test_a_loop_that_waits_for_its_loader(loop: str, tmp_path: Path, time_steps: TimedScripts) -> None:
    timed = time_steps(tmp_path, prepare("Rows(16, 2000)", "Rows(4, 1)") + STYLES[loop])
    record = timed.record
    assert (record["loop"], record["steps"], timed.phases[0]) == (loop, 11, "input")
    assert [(epoch["epoch"], epoch["steps"]) for epoch in record["epochs"]] == [(0, 3), (1, 4), (2, 4)]
    made_by = {"transformers": "trainer.train()", "lightning": "trainer.fit", "accelerate": "loader = "}
    found = record["locations"]["input"]
    assert (found["path"], found["line"]) == ("train.py", timed.line(made_by[loop]))
    assert found["settings"]["num_workers"] == 0
    assert record["locations"]["checkpoint"]["count"] == 3


@LOOPS
def test_an_evaluation_that_dominates(loop: str, tmp_path: Path, time_steps: TimedScripts) -> None:
    code = prepare("Rows(16, 1)", "Rows(32, 1)", "Model(work_in_evaluation=3000)") + STYLES[loop]
    timed = time_steps(tmp_path, code)
    assert timed.phases[0] == "evaluation"
    assert timed.record["steps"] == 11
    assert all(epoch["phases"]["evaluation"] for epoch in timed.record["epochs"])


STRAGGLER = """
import torch
import torch.distributed as dist
from torch.utils.data import DataLoader, Dataset

dist.init_process_group("gloo")
rank = dist.get_rank()

class Rows(Dataset):
    def __len__(self): return 64
    def __getitem__(self, i):
        x = torch.ones(64, 64)
        for _ in range(1000 * rank): x = torch.tanh(x @ x)
        return torch.randn(8), i % 2

model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(8, 2))
optimizer = torch.optim.SGD(model.parameters(), 0.1)
for epoch in range(2):
    for x, y in DataLoader(Rows(), 8):
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()
dist.barrier()
dist.destroy_process_group()
"""


def test_a_straggler_lets_the_other_rank_wait(tmp_path: Path) -> None:
    timed = run_timed(tmp_path, STRAGGLER, "-m", "torch.distributed.run", "--nproc_per_node=2")
    assert timed.code == 0, timed.errors
    first, second = timed.records
    assert (first["rank"], second["rank"], second["local_rank"]) == (0, 1, 1)
    assert first["notes"] == second["notes"] == []
    assert max(first["phases"], key=first["phases"].get) == "communication"
    assert max(second["phases"], key=second["phases"].get) == "input"
    assert first["own_step_s"] < second["own_step_s"]
    assert first["steps"] == second["steps"] == 15


def test_the_precision_of_accelerate_is_that_of_its_autocast(
    tmp_path: Path, time_steps: TimedScripts
) -> None:
    mixed = ACCELERATE.replace("Accelerator(cpu=True)", "Accelerator(cpu=True, mixed_precision='bf16')")
    timed = time_steps(tmp_path, prepare("Rows(16, 1)", "Rows(4, 1)") + mixed)
    assert timed.record["precision"] == "bf16"
