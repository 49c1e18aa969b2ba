"""PF120: accumulated gradients are divided, or not."""

from pathlib import Path

import pytest

from gpuproof.linter.engine import CheckOptions, check_paths
from gpuproof.linter.registry import Selection
from support.check_helpers import write_files

LOOP = """
import torch

model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
scaler = torch.amp.GradScaler("cuda")
scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1)
loader, accumulate = [], 8
total = 0.0
optimizer.zero_grad()
for epoch in range(3):
    for step, (x, y) in enumerate(loader):
        loss = torch.nn.functional.mse_loss(model(x), y)
        {body}
"""
STEP = "\n        if (step + 1) % accumulate == 0:\n            optimizer.step()\n            optimizer.zero_grad()"
SCALED = "\n        if (step + 1) % 4 == 0:\n            scaler.step(optimizer)\n            scaler.update()\n            optimizer.zero_grad()"


def codes(folder: Path, body: str) -> list[str]:
    write_files(folder, {"train.py": LOOP.format(body=body)})
    report = check_paths([str(folder)], CheckOptions(Selection(select=("PF120",))))
    return [hit.code for hit in report.hits]


@pytest.mark.parametrize(
    "body",
    [
        "loss.backward()" + STEP,
        "scaler.scale(loss).backward()" + SCALED,
        "total += loss.item() / len(loader)\n        loss.backward()" + STEP,
        "loss.backward()" + STEP + "\n        scheduler.step()",
        "loss.backward()\n        if step % accumulate == 0 or step + 1 == len(loader):"
        + STEP.partition(":")[2],
    ],
)
def test_a_sum_over_batches_that_nothing_divides_is_reported(body: str, tmp_path: Path) -> None:
    assert codes(tmp_path, body) == ["PF120"]


@pytest.mark.parametrize(
    "body",
    [
        "(loss / accumulate).backward()" + STEP,
        "loss = loss / accumulate\n        loss.backward()" + STEP,
        "loss /= accumulate\n        loss.backward()" + STEP,
        "loss = loss * (1 / accumulate)\n        loss.backward()" + STEP,
        "loss = loss * 0.125\n        loss.backward()" + STEP,
        "scaled = loss.div(accumulate)\n        scaled.backward()" + STEP,
        "scaler.scale(loss / 4).backward()" + SCALED,
        "loss = normalize(loss, accumulate)\n        loss.backward()" + STEP,
        "loss.backward()\n        optimizer.step()\n        if step % 100 == 0:\n            optimizer.zero_grad()",
        "loss.backward()\n        if step % 100 == 0:\n            print(loss)\n            optimizer.step()",
        "loss.backward()\n        if step % 1 == 0:\n            optimizer.step()\n            optimizer.zero_grad()",
        "optimizer.zero_grad()\n        loss.backward()\n        optimizer.step()\n        if step % 10 == 0:\n            print(step)",
    ],
)
def test_a_loop_that_divides_or_does_not_accumulate_is_not_reported(body: str, tmp_path: Path) -> None:
    assert codes(tmp_path, body) == []
