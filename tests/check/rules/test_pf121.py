"""PF121: the mode of a model over the epochs."""

from pathlib import Path

import pytest

from gpuproof.linter.engine import CheckOptions, check_paths
from gpuproof.linter.registry import Selection
from support.check_helpers import write_files

HEAD = """
import torch
import torchvision

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.body = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Dropout(0.1))

    def forward(self, x):
        return self.body(x)

def step(model, optimizer, x):
    optimizer.zero_grad()
    model(x).sum().backward()
    optimizer.step()

def validate(model, loader):
    model.eval()
    with torch.no_grad():
        return [model(x) for x in loader]

"""
MODEL = "net = Net()\noptimizer = torch.optim.SGD(net.parameters(), lr=0.1)\n"


def codes(folder: Path, script: str) -> list[str]:
    write_files(folder, {"train.py": HEAD + script + "\n"})
    report = check_paths([str(folder)], CheckOptions(Selection(select=("PF121",))))
    return [hit.code for hit in report.hits]


CLASS = """
class Task:
    def __init__(self):
        self.model = torchvision.models.resnet18()
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)

    def fit(self):
        for epoch in range(3):
            self.train_epoch()
            self.validate()

    def train_epoch(self):
        {mode}
        for x in []:
            self.model(x).sum().backward()
            self.optimizer.step()

    def validate(self):
        self.model.eval()
"""


@pytest.mark.parametrize(
    "script",
    [
        MODEL
        + "net.train()\nfor epoch in range(3):\n    for x in []:\n        step(net, optimizer, x)\n    validate(net, [])",
        MODEL
        + "for epoch in range(3):\n    for x in []:\n        net(x).sum().backward()\n        optimizer.step()\n"
        "    net.eval()\n    print(net)",
        (
            "def main():\n    net = Net().to('cuda')\n    optimizer = torch.optim.Adam(net.parameters())\n    for epoch in range(3):\n"
            "        step(net, optimizer, None)\n        validate(net, [])"
        ),
        CLASS.format(mode="pass"),
        (
            "for fold in range(5):\n    net = Net()\n    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)\n"
            "    for epoch in range(3):\n        step(net, optimizer, None)\n        validate(net, [])"
        ),
    ],
)
def test_a_model_that_stays_in_evaluation_mode_is_reported(script: str, tmp_path: Path) -> None:
    assert codes(tmp_path, script) == ["PF121"]


@pytest.mark.parametrize(
    "script",
    [
        MODEL
        + "for epoch in range(3):\n    net.train()\n    step(net, optimizer, None)\n    validate(net, [])",
        MODEL
        + "for epoch in range(3):\n    step(net, optimizer, None)\n    validate(net, [])\n    net.train(True)",
        MODEL + "for epoch in range(3):\n    step(net, optimizer, None)\nvalidate(net, [])",
        MODEL + "for epoch in range(3):\n    validate(net, [])\nfor x in []:\n    step(net, optimizer, x)",
        MODEL
        + "other = Net()\nfor epoch in range(3):\n    step(net, optimizer, None)\n    validate(other, [])",
        MODEL + "from engine import train_one_epoch\nfor epoch in range(3):\n    train_one_epoch(net)\n"
        "    step(net, optimizer, None)\n    validate(net, [])",
        CLASS.format(mode="self.model.train()"),
        (
            "for fold in range(5):\n    net = Net()\n    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)\n"
            "    for epoch in range(3):\n        step(net, optimizer, None)\n    validate(net, [])"
        ),
        (
            "def run(fold):\n    net = Net()\n    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)\n    for epoch in range(3):\n"
            "        step(net, optimizer, None)\n    validate(net, [])\n\nfor fold in range(5):\n    run(fold)"
        ),
        MODEL + "for epoch in range(3):\n    net.eval()\n    step(net, optimizer, None)",
    ],
)
def test_a_model_that_trains_in_training_mode_is_not_reported(script: str, tmp_path: Path) -> None:
    assert codes(tmp_path, script) == []
