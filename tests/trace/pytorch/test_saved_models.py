"""Files that a script saves with `torch.save` and loads again: they have shapes and no values, and take no memory."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.traced_scripts import failure_of, trace_of

pytestmark = pytest.mark.slow

SAVED = """
import io
import os
import torch

model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.BatchNorm1d(64)).cuda()
optimizer = torch.optim.Adam(model.parameters())

def step():
    optimizer.zero_grad()
    model(torch.ones(3, 64).cuda()).pow(2).mean().backward()
    optimizer.step()

step()
os.makedirs("checkpoints")
state = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "random": torch.get_rng_state(), "epoch": 3}
torch.save(state, "checkpoints/last.pt")
assert os.listdir("checkpoints") == ["last.pt"]
found = torch.load("checkpoints/last.pt", map_location="cpu")
assert (found["epoch"], found["model"]["0.weight"].is_cuda) == (3, False)
torch.set_rng_state(found["random"])
model.load_state_dict(found["model"])
optimizer.load_state_dict(found["optimizer"])
assert torch.load("checkpoints/last.pt")["model"]["0.weight"].is_cuda
buffer = io.BytesIO()
torch.save(model, buffer)
buffer.seek(0)
copy = torch.load(buffer, weights_only=False)
assert (type(copy), copy[0].weight.is_cuda, copy[0].weight.requires_grad) == (type(model), True, True)
step()
step()
"""

SAFETENSORS = """
import torch
from safetensors.torch import load_file, load_model, save_file, save_model

model = torch.nn.Linear(64, 64).cuda()
optimizer = torch.optim.SGD(model.parameters(), 0.1)
for _ in range(3):
    model(torch.ones(3, 64, device="cuda")).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
    save_file(model.state_dict(), "weights.safetensors")
    weights = load_file("weights.safetensors", device="cuda")
    assert weights["weight"].is_cuda and not load_file("weights.safetensors")["weight"].is_cuda
    model.load_state_dict(weights)
    save_model(model, "model.safetensors")
    assert load_model(model, "model.safetensors") == (set(), []), load_model(model, "model.safetensors")
"""

CHECKPOINTS = """
import torch
from accelerate import Accelerator

accelerator = Accelerator()
model = torch.nn.Linear(64, 64)
model, optimizer = accelerator.prepare(model, torch.optim.AdamW(model.parameters()))
for step in range(3):
    accelerator.backward(model(torch.ones(2, 64, device=accelerator.device)).sum())
    optimizer.step()
    optimizer.zero_grad()
    accelerator.save_state(f"step-{step}")
    accelerator.load_state(f"step-{step}")
"""

TRAINER = """
import torch
from transformers import BertConfig, BertForSequenceClassification, Trainer, TrainingArguments

config = BertConfig(num_hidden_layers=1, hidden_size=64, num_attention_heads=4, intermediate_size=64)
data = [{"input_ids": torch.ones(16, dtype=torch.long), "labels": torch.tensor(1)} for _ in range(64)]
arguments = TrainingArguments("out", per_device_train_batch_size=4, save_steps=1, save_total_limit=1, report_to=[])
Trainer(BertForSequenceClassification(config), arguments, train_dataset=data).train()
"""

NOT_PICKLED = """
import torch

torch.save({"schedule": lambda epoch: epoch}, "last.pt")

def resume():
    return torch.load("last.pt", weights_only=False)

resume()
"""


def test_a_script_loads_what_it_has_saved(tmp_path: Path) -> None:
    trace = trace_of(tmp_path, SAVED)
    assert trace.steps == 3
    assert "ended-early" not in {note.code for note in trace.assumptions}
    assert "torch.save" in {note.message for note in trace.side_effects}
    assert sorted(path.name for path in tmp_path.iterdir()) == ["train.py"]


@pytest.mark.parametrize(
    ("library", "script"),
    [("safetensors", SAFETENSORS), ("accelerate", CHECKPOINTS), ("transformers", TRAINER)],
)
def test_checkpoints_of_safetensors_are_not_written(tmp_path: Path, library: str, script: str) -> None:
    pytest.importorskip(library)
    trace = trace_of(tmp_path, script)
    assert trace.steps == 3
    assert "ended-early" not in {note.code for note in trace.assumptions}
    assert any(note.code == "save" for note in trace.side_effects)
    assert [path.name for path in tmp_path.iterdir()] == ["train.py"]


def test_a_model_of_transformers_is_saved_and_made_again(tmp_path: Path) -> None:
    pytest.importorskip("transformers")
    script = (
        TRAINER[: TRAINER.index("data =")]
        + """
model = BertForSequenceClassification(config)
model.save_pretrained("saved")
model = BertForSequenceClassification.from_pretrained("saved").cuda()
assert model.config.hidden_size == 64
optimizer = torch.optim.SGD(model.parameters(), 0.1)
for _ in range(3):
    model(input_ids=torch.ones(2, 8, dtype=torch.long, device="cuda")).logits.sum().backward()
    optimizer.step()
"""
    )
    trace = trace_of(tmp_path, script)
    assert (trace.steps, [path.name for path in tmp_path.iterdir()]) == (3, ["train.py"])
    messages = [note.message for note in trace.side_effects]
    assert "BertForSequenceClassification.save_pretrained" in messages


def test_an_object_that_cannot_be_pickled_ends_the_script_only_when_it_is_loaded(tmp_path: Path) -> None:
    found = failure_of(tmp_path, NOT_PICKLED)
    assert (found.code, found.line) == (
        "saved-object",
        NOT_PICKLED[: NOT_PICKLED.index("    return")].count("\n") + 1,
    )
    assert "state_dict" in found.remedy
