"""PF119 on the forms in which models and losses are written."""

from pathlib import Path

import pytest

from gpuproof.linter.engine import CheckOptions, check_paths
from gpuproof.linter.registry import Selection
from support.check_helpers import write_files

HEAD = "import torch\nimport torch.nn.functional as F\nfrom torch import nn\n\nx, y = torch.ones(2, 8), torch.ones(2)\n"
NET = """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(8, 3)
        self.act = nn.{layer}

    def forward(self, x):
        x = torch.relu(self.fc(x))
        return {returned}

"""
TRAIN = """
def train(model, criterion):
    model.train()
    out = model(x)
    return criterion(out, y)

device = torch.device("cuda")
"""


def codes(folder: Path, script: str) -> list[str]:
    write_files(folder, {"train.py": HEAD + script + "\n"})
    report = check_paths([str(folder)], CheckOptions(Selection(select=("PF119",))))
    return [hit.code for hit in report.hits]


def net(layer: str = "Softmax(dim=1)", returned: str = "self.act(x)") -> str:
    return NET.format(layer=layer, returned=returned)


@pytest.mark.parametrize(
    "script",
    [
        net() + "nn.CrossEntropyLoss()(Net()(x), y)",
        net() + TRAIN + "train(Net().to(device), nn.CrossEntropyLoss().to(device))",
        net() + TRAIN + "train(nn.DataParallel(Net()), nn.CrossEntropyLoss(label_smoothing=0.1))",
        net("Sigmoid()") + TRAIN + "train(Net(), nn.BCEWithLogitsLoss())",
        net("LogSoftmax(dim=1)") + TRAIN + "train(Net(), nn.CrossEntropyLoss())",
        net(returned="F.softmax(self.fc(x), dim=1)") + "F.nll_loss(Net()(x), y)",
        net(returned="self.fc(x)") + "F.nll_loss(Net()(x), y)",
        net(returned="self.fc(x)") + TRAIN + "train(Net(), nn.BCELoss())",
        net(returned="self.fc(x).softmax(-1)") + "net = Net()\nout = net(x)\nF.cross_entropy(out, y)",
        "model = nn.Linear(8, 3)\nscores = torch.softmax(model(x), dim=1)\nF.cross_entropy(scores, y)",
        "model = nn.Linear(8, 1)\nout = torch.sigmoid(model(x)).squeeze()\nF.binary_cross_entropy_with_logits(out, y)",
        "model = nn.Sequential(nn.Linear(8, 8), nn.Sequential(nn.Linear(8, 3), nn.Softmax(1)))\nF.cross_entropy(model(x), y)",
        net()
        + "class Task:\n    def __init__(self):\n        self.model = Net()\n        self.loss = nn.CrossEntropyLoss()\n\n"
        "    def step(self, x, y):\n        return self.loss(self.model(x), y)",
    ],
)
def test_a_loss_that_gets_something_else_is_reported(script: str, tmp_path: Path) -> None:
    assert codes(tmp_path, script) == ["PF119"]


@pytest.mark.parametrize(
    "script",
    [
        net(returned="self.fc(x)") + TRAIN + "train(Net(), nn.CrossEntropyLoss())",
        net("Sigmoid()") + TRAIN + "train(Net(), nn.BCELoss())",
        net("LogSoftmax(dim=1)") + TRAIN + "train(Net(), nn.NLLLoss())",
        net(returned="self.fc(x)") + TRAIN + "train(Net(), nn.BCEWithLogitsLoss())",
        net(returned="torch.log(self.act(x))") + TRAIN + "train(Net(), nn.NLLLoss())",
        net(returned="self.act(x) if not self.training else x")
        + TRAIN
        + "train(Net(), nn.CrossEntropyLoss())",
        net(returned="(self.fc(x), self.act(x))")
        + "logits, probabilities = Net()(x)\nF.cross_entropy(logits, y)",
        net(returned="self.act(x) @ x") + TRAIN + "train(Net(), nn.CrossEntropyLoss())",
        net() + TRAIN + "train(Net(), nn.MSELoss())",
        net() + TRAIN + "train(Net(), nn.CrossEntropyLoss() if len(x) > 9 else nn.NLLLoss())",
        "model = nn.Linear(8, 3)\nlogits = model(x)\nprobabilities = logits.softmax(1)\nF.cross_entropy(logits, y)",
        "model = nn.Linear(8, 3)\nout = model(x)\nif len(x) > 9:\n    out = out.softmax(1)\nF.cross_entropy(out, y)",
        "from models import build\nF.cross_entropy(build()(x), y)",
        "model = nn.Sequential(nn.Linear(8, 3), nn.Softmax(1))\nmodel = model[0]\nF.cross_entropy(model(x), y)",
        "model = nn.Sequential(nn.Linear(8, 3), nn.Softmax(1))\nF.cross_entropy(model[0](x), y)",
        "model = nn.Linear(8, 3)\nF.nll_loss(torch.log(model(x).softmax(1) + 1e-8), y)",
        "attention = nn.Softmax(dim=1)\nmodel = nn.Linear(8, 3)\nF.cross_entropy(model(attention(x)), y)",
        "F.cross_entropy(x, y.softmax(0))",
    ],
)
def test_a_loss_that_fits_is_not_reported(script: str, tmp_path: Path) -> None:
    assert codes(tmp_path, script) == []
