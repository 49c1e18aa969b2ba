"""ResNet-50 and BERT in plain torch, with weights from seed 0."""
# pyright: basic, reportMissingImports=false, reportAttributeAccessIssue=false, reportCallIssue=false

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import nn
from torch.nn import functional


class Bottleneck(nn.Module):
    """ResNet's bottleneck: He et al., "Deep Residual Learning for Image Recognition", 2015, figure 5, right.

    The stride is the 3x3 convolution's, as in most code since ("v1.5").
    """

    def __init__(self, inputs: int, width: int, stride: int) -> None:
        super().__init__()
        outputs = 4 * width
        last = nn.BatchNorm2d(outputs)
        # Half of a branch's size keeps sixteen sums of untrained branches in float16's range.
        nn.init.constant_(last.weight, 0.5)
        self.body = nn.Sequential(
            nn.Conv2d(inputs, width, 1, bias=False),
            nn.BatchNorm2d(width),
            nn.ReLU(inplace=True),
            nn.Conv2d(width, width, 3, stride, 1, bias=False),
            nn.BatchNorm2d(width),
            nn.ReLU(inplace=True),
            nn.Conv2d(width, outputs, 1, bias=False),
            last,
        )
        self.shortcut = (
            nn.Identity()
            if stride == 1 and inputs == outputs
            else nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs))
        )

    def forward(self, data: torch.Tensor) -> torch.Tensor:
        return torch.relu(self.body(data) + self.shortcut(data))


class ResNet(nn.Module):
    """Table 1 of the same paper: with width 64 and blocks (3, 4, 6, 3) the one of 50 layers.

    `forward` takes decoded images, (n, height, width, 3) of uint8, and returns (n, classes).
    """

    mean: torch.Tensor
    deviation: torch.Tensor

    def __init__(self, width: int, blocks: Sequence[int], classes: int) -> None:
        super().__init__()
        layers: list[nn.Module] = [
            nn.Conv2d(3, width, 7, 2, 3, bias=False),
            nn.BatchNorm2d(width),
            nn.ReLU(inplace=True),
            nn.MaxPool2d(3, 2, 1),
        ]
        inputs = width
        for number, count in enumerate(blocks):
            inner = width << number
            for index in range(count):
                layers.append(Bottleneck(inputs, inner, 2 if number and not index else 1))
                inputs = 4 * inner
        self.layers = nn.Sequential(
            *layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(inputs, classes)
        )
        # ImageNet's own, as every ResNet's preprocessing has them.
        self.register_buffer("mean", 255 * torch.tensor([0.485, 0.456, 0.406]).reshape(3, 1, 1))
        self.register_buffer("deviation", 255 * torch.tensor([0.229, 0.224, 0.225]).reshape(3, 1, 1))
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return self.layers((images.permute(0, 3, 1, 2).float() - self.mean) / self.deviation)


class Layer(nn.Module):
    """One of BERT's layers: attention and two linear maps, each with its sum and norm behind it."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.given = nn.Linear(width, 3 * width)
        self.attended = nn.Linear(width, width)
        self.first_norm = nn.LayerNorm(width, eps=1e-12)
        self.wide = nn.Linear(width, 4 * width)
        self.narrow = nn.Linear(4 * width, width)
        self.second_norm = nn.LayerNorm(width, eps=1e-12)

    def forward(self, hidden: torch.Tensor) -> torch.Tensor:
        parts = self.given(hidden).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        query, key, value = parts.unbind(0)
        attended = functional.scaled_dot_product_attention(query, key, value)
        hidden = self.first_norm(hidden + self.attended(attended.transpose(1, 2).flatten(2)))
        return self.second_norm(hidden + self.narrow(functional.gelu(self.wide(hidden))))


class Bert(nn.Module):
    """Devlin et al., "BERT: Pre-training of Deep Bidirectional Transformers", 2018; BASE has 12 layers of 768.

    `forward` takes token ids without padding, (n, length) of int64, and returns the pooler's output, (n, width).
    """

    def __init__(self, layers: int, width: int, heads: int, tokens: int, positions: int) -> None:
        super().__init__()
        self.words = nn.Embedding(tokens, width)
        self.places = nn.Embedding(positions, width)
        self.segments = nn.Embedding(2, width)
        self.norm = nn.LayerNorm(width, eps=1e-12)
        self.layers = nn.Sequential(*(Layer(width, heads) for _ in range(layers)))
        self.pooler = nn.Linear(width, width)
        for module in self.modules():
            if isinstance(module, (nn.Embedding, nn.Linear)):
                nn.init.normal_(module.weight, std=0.02)
            if isinstance(module, nn.Linear):
                nn.init.zeros_(module.bias)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        places = self.places.weight[: ids.shape[1]]
        hidden = self.layers(self.norm(self.words(ids) + places + self.segments.weight[0]))
        return torch.tanh(self.pooler(hidden[:, 0]))


def build(name: str, size: dict[str, Any]) -> nn.Module:
    """Build `resnet50` or `bert`; `size` holds the arguments of its class."""
    torch.manual_seed(0)
    if name == "bert":
        return Bert(**size).eval()
    # What PyTorch advises for convolutions in half precision; the images come that way too.
    return ResNet(**size).eval().to(memory_format=torch.channels_last)
