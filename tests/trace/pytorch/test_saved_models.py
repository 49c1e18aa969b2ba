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
    assert "torch.save was not done." in {note.message for note in trace.side_effects}
    assert sorted(path.name for path in tmp_path.iterdir()) == ["train.py"]


def test_an_object_that_cannot_be_pickled_ends_the_script_only_when_it_is_loaded(tmp_path: Path) -> None:
    found = failure_of(tmp_path, NOT_PICKLED)
    assert (found.code, found.line) == (
        "saved-object",
        NOT_PICKLED[: NOT_PICKLED.index("    return")].count("\n") + 1,
    )
    assert "state_dict" in found.remedy
