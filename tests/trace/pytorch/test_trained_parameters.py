"""What a trace finds about parameters that a script does not train."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.traced_scripts import trace_of

pytestmark = pytest.mark.slow

SCRIPT = """
import torch
from torch import nn

class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.body, self.head, self.spare = nn.Linear(16, 16), nn.Linear(16, 4), nn.Linear(16, 4)
    def forward(self, x):
        return self.head(torch.relu(self.body(x)))

model = Model().cuda()
teacher = Model().cuda()
{before}
optimizer = {optimizer}
for step in range(10):
    x, target = torch.randn(8, 16).cuda(), torch.randint(0, 4, (8,)).cuda()
    loss = nn.functional.cross_entropy(model(x), target)
    optimizer.zero_grad()
    {backward}
    optimizer.step()
"""
ALL = "torch.optim.AdamW(model.parameters())"
UNFROZEN = "torch.optim.AdamW(p for p in model.parameters() if p.requires_grad)"
FREEZE = "model.spare.requires_grad_(False)"


def findings(
    folder: Path, before: str = "", optimizer: str = ALL, backward: str = "loss.backward()"
) -> list[tuple[str, int]]:
    script = SCRIPT.format(before=before, optimizer=optimizer, backward=backward)
    line = script.splitlines().index(f"optimizer = {optimizer}") + 1
    found = trace_of(folder, script).findings
    return [(note.code, (note.line or 0) - line) for note in found]


def test_a_layer_that_the_loss_does_not_depend_on(tmp_path: Path) -> None:
    assert findings(tmp_path) == [("no-gradient", 0)]


def test_parameters_that_the_optimizer_does_not_have(tmp_path: Path) -> None:
    found = findings(tmp_path, FREEZE, "torch.optim.AdamW(model.head.parameters())")
    assert found == [("not-in-optimizer", 0)]


@pytest.mark.parametrize(
    "backward",
    [
        "torch.tensor(loss.item(), requires_grad=True).backward()",
        "pass",
        "loss.detach().requires_grad_().backward()",
    ],
)
def test_a_loss_without_the_model(tmp_path: Path, backward: str) -> None:
    # The line is that of the optimizer's step.
    assert findings(tmp_path, FREEZE, UNFROZEN, backward) == [("detached-loss", 6)]


@pytest.mark.parametrize(
    ("before", "optimizer", "backward"),
    [
        (FREEZE, UNFROZEN, "loss.backward()"),
        (FREEZE, ALL, "loss.backward()"),
        (
            FREEZE,
            ALL,
            "wanted = teacher(x).detach(); (loss + (model(x) - wanted).pow(2).mean()).backward()",
        ),
        (
            f"{FREEZE}; model.body.requires_grad_(False)",
            "torch.optim.SGD(model.head.parameters(), lr=0.1)",
            "loss.backward()",
        ),
        (
            f"{FREEZE}; other = torch.optim.SGD(model.body.parameters(), lr=0.1)",
            "torch.optim.SGD(model.head.parameters(), lr=0.1)",
            "loss.backward(); step % 2 and other.step()",
        ),
    ],
)
def test_sound_loops_have_no_findings(tmp_path: Path, before: str, optimizer: str, backward: str) -> None:
    assert findings(tmp_path, before, optimizer, backward) == []
