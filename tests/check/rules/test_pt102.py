"""PT102: half of a pair is moved to the GPU."""

from pathlib import Path

import pytest

from gpuproof.linter.engine import CheckOptions, check_paths
from gpuproof.linter.registry import Selection
from support.check_helpers import write_files

HEAD = """
import torch
import torchvision
from torch import nn
from torch.utils.data import DataLoader

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
loader = DataLoader([])
criterion = nn.CrossEntropyLoss()
"""
MOVED = "model = nn.Linear(8, 3).to(device)\n"
LOOP = "for x, y in loader:\n    "


def codes(folder: Path, script: str) -> list[str]:
    write_files(folder, {"train.py": HEAD + script + "\n"})
    report = check_paths([str(folder)], CheckOptions(Selection(select=("PT102",))))
    return [hit.code for hit in report.hits]


@pytest.mark.parametrize(
    "script",
    [
        "model = nn.Linear(8, 3)\n"
        + LOOP
        + "x, y = x.to(device), y.to(device)\n    loss = criterion(model(x), y)",
        "model = torchvision.models.resnet18()\n" + LOOP + "x = x.to(device)\n    out = model(x)",
        MOVED + LOOP + "x = x.to(device)\n    loss = criterion(model(x), y)",
        MOVED + LOOP + "out = model(x.to(device)).squeeze()\n    loss = nn.functional.mse_loss(out, y)",
        MOVED
        + "for i, (x, y) in enumerate(loader):\n    x = x.to(device)\n    out = model(x)\n    loss = criterion(out, y)",
        MOVED + "criterion.to(device)\n" + LOOP + "x = x.cuda()\n    loss = criterion(model(x), y)",
    ],
)
def test_a_half_that_stays_on_the_cpu_is_reported(script: str, tmp_path: Path) -> None:
    assert codes(tmp_path, script) == ["PT102"]


@pytest.mark.parametrize(
    "script",
    [
        MOVED + LOOP + "x, y = x.to(device), y.to(device)\n    loss = criterion(model(x), y)",
        MOVED + LOOP + "x = x.to(device)\n    y = y.to(device)\n    loss = criterion(model(x), y)",
        MOVED + LOOP + "x = x.to(device)\n    loss = criterion(model(x), y.to(device))",
        MOVED + LOOP + "x = x.to(device)\n    loss = criterion(model(x).cpu(), y)",
        MOVED + LOOP + "x, y = (item.to(device) for item in (x, y))\n    loss = criterion(model(x), y)",
        MOVED + LOOP + "x = x.to(device)\n    loss = criterion(model(x), torch.zeros(3, device=device))",
        MOVED + LOOP + "x = x.to(device)\n    loss = ours(model(x), y)",
        "model = nn.Linear(8, 3)\n" + LOOP + "loss = criterion(model(x), y)",
        "model = nn.Linear(8, 3)\nmodel.to(device)\n"
        + LOOP
        + "x, y = x.to(device), y.to(device)\n    criterion(model(x), y)",
        "def place(batch):\n    return [item.to(device) for item in batch]\n\n"
        + MOVED
        + "for batch in loader:\n    x, y = place(batch)\n    loss = criterion(model(x), y)",
    ],
)
def test_a_pair_on_one_device_is_not_reported(script: str, tmp_path: Path) -> None:
    assert codes(tmp_path, script) == []
