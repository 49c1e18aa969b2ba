"""PF104 in code that also trains, and PF122 on what an optimizer gets."""

from pathlib import Path

import pytest

from gpuproof.linter.engine import CheckOptions, check_paths
from gpuproof.linter.registry import Selection
from support.check_helpers import write_files

LOOP = """
import torch
from torch.utils.data import DataLoader

model = torch.nn.Linear(4, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for epoch in range(3):
    model.train()
    for x, y in DataLoader([]):
        optimizer.zero_grad()
        model(x).sum().backward()
        optimizer.step()
    model.eval()
{evaluation}
"""
ADAPTED = """
import torch
import torchvision
from peft import LoraConfig, get_peft_model

class Lora(torch.nn.Module):
    pass

base = torchvision.models.resnet18()
{body}
"""


def codes(folder: Path, script: str, code: str) -> list[str]:
    write_files(folder, {"train.py": script})
    report = check_paths([str(folder)], CheckOptions(Selection(select=(code,))))
    return [hit.code for hit in report.hits]


@pytest.mark.parametrize(
    ("evaluation", "expected"),
    [
        ("    for x, y in DataLoader([]):\n        print(model(x).argmax(1))", ["PF104"]),
        ("    for x, y in DataLoader([]):\n        with torch.no_grad():\n            print(model(x))", []),
        (
            "    with torch.inference_mode():\n        for x, y in DataLoader([]):\n            print(model(x))",
            [],
        ),
        ("    model.train()\n    for x, y in DataLoader([]):\n        print(model(x))", []),
        ("    for x, y in DataLoader([]):\n        model(x).sum().backward()", []),
        ("    for x, y in DataLoader([]):\n        other(x)", []),
        ("    torch.set_grad_enabled(False)\n    for x, y in DataLoader([]):\n        print(x)", []),
    ],
)
def test_a_loop_of_evaluation_in_a_training_loop(
    evaluation: str, expected: list[str], tmp_path: Path
) -> None:
    assert codes(tmp_path, LOOP.format(evaluation=evaluation), "PF104") == expected


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (
            "optimizer = torch.optim.Adam(base.parameters())\nmodel = get_peft_model(base, LoraConfig())",
            ["PF122"],
        ),
        ("optimizer = torch.optim.Adam(base.parameters())\nbase.fc = Lora()", ["PF122"]),
        (
            "optimizer = torch.optim.Adam(base.parameters())\nbase.fc = torch.nn.Linear(4, 4).to('cuda')",
            ["PF122"],
        ),
        (
            "optimizer = torch.optim.Adam(base.parameters())\nbase.layer4[1].conv2 = torch.nn.Conv2d(4, 4, 1)",
            ["PF122"],
        ),
        (
            (
                "optimizer = torch.optim.Adam([p for p in base.parameters() if p.requires_grad])\n"
                "base.fc = torch.nn.Sequential(torch.nn.Linear(4, 4))"
            ),
            ["PF122"],
        ),
        ("model = get_peft_model(base, LoraConfig())\noptimizer = torch.optim.Adam(base.parameters())", []),
        ("base.fc = torch.nn.Linear(4, 4)\noptimizer = torch.optim.Adam(base.parameters())", []),
        ("optimizer = torch.optim.Adam(base.parameters())\nbase.fc = torch.nn.Identity()", []),
        (
            "optimizer = torch.optim.Adam(base.parameters())\nother = torchvision.models.vgg11()\nother.fc = Lora()",
            [],
        ),
        (
            "def probe():\n    optimizer = torch.optim.Adam(base.parameters())\n\n\ndef build():\n    base.fc = Lora()\n",
            [],
        ),
        (
            (
                "optimizer = torch.optim.Adam(base.parameters())\nif base:\n    base.fc = Lora()\n"
                "    optimizer = torch.optim.Adam(base.parameters())"
            ),
            [],
        ),
    ],
)
def test_parameters_that_come_after_the_optimizer(body: str, expected: list[str], tmp_path: Path) -> None:
    assert codes(tmp_path, ADAPTED.format(body=body), "PF122") == expected
