"""The models of the benchmark, in plain torch: each peer serves the same weights."""
# pyright: basic, reportMissingImports=false, reportAttributeAccessIssue=false

from __future__ import annotations

import json
import math
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch
from torch import nn

SHAPES = {"noop": (8,), "mlp": (784,), "resnet18": (3, 224, 224)}
"""Of one item, without the batch."""


class First(nn.Module):
    """Returns the first number, so that the rest of the time is the server's own work."""

    def forward(self, data: torch.Tensor) -> torch.Tensor:
        return data[:, :1]


class Longer(nn.Module):
    """Wraps a model and passes it the first of more numbers than it takes: the rest makes the body long, which shows the
    cost of its bytes.
    """

    def __init__(self, model: nn.Module, shape: tuple[int, ...]) -> None:
        super().__init__()
        self.model = model
        self.shape = shape

    def forward(self, data: torch.Tensor) -> torch.Tensor:
        return self.model(data.flatten(1)[:, : math.prod(self.shape)].unflatten(1, self.shape))


class Block(nn.Module):
    """ResNet's basic block: He et al., "Deep Residual Learning for Image Recognition", 2015, figure 2."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False),
            nn.BatchNorm2d(outputs),
            nn.ReLU(inplace=True),
            nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False),
            nn.BatchNorm2d(outputs),
        )
        self.shortcut = (
            nn.Identity()
            if stride == 1 and inputs == outputs
            else nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs))
        )

    def forward(self, data: torch.Tensor) -> torch.Tensor:
        return torch.relu(self.body(data) + self.shortcut(data))


def resnet18() -> nn.Module:
    """Table 1 of the same paper, 18 layers, 1000 classes."""
    widths = (64, 64, 128, 256, 512)
    layers: list[nn.Module] = [
        nn.Conv2d(3, 64, 7, 2, 3, bias=False),
        nn.BatchNorm2d(64),
        nn.ReLU(inplace=True),
        nn.MaxPool2d(3, 2, 1),
    ]
    for number, (inputs, outputs) in enumerate(pairwise(widths)):
        layers += [Block(inputs, outputs, 2 if number else 1), Block(outputs, outputs, 1)]
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, 1000))


def mlp() -> nn.Module:
    """784-512-512-10."""
    return nn.Sequential(nn.Linear(784, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 10))


def load(model_dir: str) -> Any:
    """The model that `bench.json` names, with weights from seed 0."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    config = json.loads((Path(model_dir) / "bench.json").read_text())
    model: nn.Module = {"noop": First, "mlp": mlp, "resnet18": resnet18}[config["model"]]()
    return (Longer(model, SHAPES[config["model"]]) if config["longer"] else model).eval()
