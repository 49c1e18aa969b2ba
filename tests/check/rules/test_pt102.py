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


MOVER = """
class Mover(nn.Module):
    def forward(self, x):
        return x.to(device).float()

class Moved(torch.utils.data.Dataset):
    def __getitem__(self, index):
        return torch.ones(8).to(device), torch.ones(3).to(device)

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(8, 3)

    def forward(self, x):
        return self.layer(x)
"""
STEP = LOOP + "out = model(x)"


@pytest.mark.parametrize(
    "script",
    [
        "model = Mover().to(device)\n" + STEP,
        "class Child(Mover):\n    pass\n\nmodel = Child().to(device)\n" + STEP,
        "class Outer(nn.Module):\n    def __init__(self):\n        super().__init__()\n        self.inner = Mover()\n\n"
        "model = Outer().to(device)\n" + STEP,
        "model = nn.Sequential(Mover(), nn.Linear(8, 3)).to(device)\n" + STEP,
        "layers = [nn.Linear(8, 3)]\nlayers.insert(0, Mover())\nmodel = nn.Sequential(*layers).to(device)\n"
        + STEP,
        "def build():\n    return nn.Sequential(Mover(), nn.Linear(8, 3))\n\nmodel = build().to(device)\n"
        + STEP,
        MOVED + "model.first = Mover()\n" + STEP,
        MOVED + "model.add_module('first', Mover())\n" + STEP,
        MOVED + "model.register_forward_pre_hook(lambda _, given: Mover()(given[0]))\n" + STEP,
        "model = nn.Linear(8, 3)\nwrapped = Mover(model)\n" + LOOP + "out = model(x.to(device))",
        "model = nn.Linear(8, 3)\nnet = model\nwrapped = Mover(net)\n" + LOOP + "out = model(x.to(device))",
        "def wrap(net):\n    return Mover(net)\n\nmodel = nn.Linear(8, 3)\nwrap(model)\n"
        + LOOP
        + "out = model(x.to(device))",
        "def train(model, data):\n    for x, y in data:\n        out = model(x)\n\ntrain(Mover().to(device), loader)",
        "moved = DataLoader(Moved())\n" + MOVED + "for x, y in moved:\n    out = model(x)",
        "data = Moved()\nmoved = DataLoader(data)\n" + MOVED + "for x, y in moved:\n    out = model(x)",
    ],
)
def test_a_class_that_takes_part_in_the_call_may_move(script: str, tmp_path: Path) -> None:
    assert codes(tmp_path, MOVER + script) == []


@pytest.mark.parametrize(
    "script",
    [
        MOVED + STEP,
        MOVED + "other = Mover().to(device)\n" + STEP + "\n    print(other(x))",
        MOVED + "moved = DataLoader(Moved())\n" + STEP,
        "model = Net().to(device)\n" + STEP,
        MOVED + "print(isinstance(model, Mover))\n" + STEP,
        (
            "def train(model, other, data):\n    for x, y in data:\n        out = model(x)\n        print(other(x))\n\n"
            "train(nn.Linear(8, 3).to(device), Mover(), loader)"
        ),
        MOVED + LOOP + "x = x.to(device)\n    loss = criterion(model(x), y)",
    ],
)
def test_a_class_of_another_model_moves_nothing(script: str, tmp_path: Path) -> None:
    assert codes(tmp_path, MOVER + script) == ["PT102"]
