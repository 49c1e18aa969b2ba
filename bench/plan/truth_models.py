"""Measures training steps of 15 models, in place of the six of `gpuproof calibrate`: what `bench/gpu_truth.py` compares plans with.

Takes the options of `measure_gpu.py`, and `--only`. The models differ from those of a calibration in size, and most of them in kind.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path

import torch
from torch import nn
from torch.nn import functional

sys.path[:0] = [str(Path(__file__).parents[2] / "src")]

from gpuproof.planning.calibration import measure_gpu as base  # noqa: E402


class Vgg(nn.Module):
    """Plain convolutions and large linear layers, as in VGG."""

    def __init__(self, width: int, hidden: int) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        before = 3
        for stage in range(4):
            for _ in range(2):
                layers += [nn.Conv2d(before, width << stage, 3, padding=1), nn.ReLU(inplace=True)]
                before = width << stage
            layers.append(nn.MaxPool2d(2))
        self.features = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(2), nn.Flatten())
        self.head = nn.Sequential(nn.Linear(4 * before, hidden), nn.ReLU(), nn.Linear(hidden, 1000))

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """Scores of each class."""
        return self.head(self.features(images))


class ResNeXt(nn.Module):
    """Bottlenecks with grouped convolutions."""

    def __init__(self, width: int, groups: int, depth: int) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 2 * width, 7, stride=4, padding=3, bias=False)
        self.blocks = nn.ModuleList(
            nn.Sequential(
                nn.Conv2d(2 * width, width, 1, bias=False),
                nn.BatchNorm2d(width),
                nn.ReLU(inplace=True),
                nn.Conv2d(width, width, 3, padding=1, groups=groups, bias=False),
                nn.BatchNorm2d(width),
                nn.ReLU(inplace=True),
                nn.Conv2d(width, 2 * width, 1, bias=False),
                nn.BatchNorm2d(2 * width),
            )
            for _ in range(depth)
        )
        self.head = nn.Linear(2 * width, 1000)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """Scores of each class."""
        x = self.stem(images)
        for block in self.blocks:
            x = functional.relu(x + block(x))
        return self.head(x.mean((2, 3)))


class ConvNeXt(nn.Module):
    """Depthwise 7x7 convolutions with layer normalization over channels that are last."""

    def __init__(self, width: int, depth: int) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, width, 4, stride=4)
        self.depthwise = nn.ModuleList(
            nn.Conv2d(width, width, 7, padding=3, groups=width) for _ in range(depth)
        )
        self.mixing = nn.ModuleList(
            nn.Sequential(
                nn.LayerNorm(width), nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)
            )
            for _ in range(depth)
        )
        self.head = nn.Linear(width, 1000)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """Scores of each class."""
        x = self.stem(images)
        for depthwise, mixing in zip(self.depthwise, self.mixing, strict=True):
            x = x + mixing(depthwise(x).permute(0, 2, 3, 1)).permute(0, 3, 1, 2)
        return self.head(x.mean((2, 3)))


class UNet(nn.Module):
    """Down, up and across, with a class for each pixel."""

    def __init__(self, width: int, classes: int) -> None:
        super().__init__()
        self.first, self.second = self._pair(3, width), self._pair(width, 2 * width)
        self.bottom = self._pair(2 * width, 4 * width)
        self.up_second = nn.ConvTranspose2d(4 * width, 2 * width, 2, stride=2)
        self.up_first = nn.ConvTranspose2d(2 * width, width, 2, stride=2)
        self.out_second, self.out_first = self._pair(4 * width, 2 * width), self._pair(2 * width, width)
        self.head = nn.Conv2d(width, classes, 1)

    @staticmethod
    def _pair(before: int, after: int) -> nn.Module:
        layers = [nn.Conv2d(before, after, 3, padding=1), nn.GroupNorm(4, after), nn.SiLU()]
        return nn.Sequential(
            *layers, nn.Conv2d(after, after, 3, padding=1), nn.GroupNorm(4, after), nn.SiLU()
        )

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """Scores of each class of each pixel, channels last."""
        first = self.first(images)
        second = self.second(functional.max_pool2d(first, 2))
        bottom = self.bottom(functional.max_pool2d(second, 2))
        x = self.out_second(torch.cat([self.up_second(bottom), second], 1))
        x = self.out_first(torch.cat([self.up_first(x), first], 1))
        return self.head(x).permute(0, 2, 3, 1).flatten(1, 2)


class Mixer(nn.Module):
    """Linear layers over patches and over channels, as in MLP-Mixer."""

    def __init__(self, width: int, patches: int, depth: int) -> None:
        super().__init__()

        def layers(size: int) -> nn.Module:
            return nn.Sequential(nn.Linear(size, 2 * size), nn.GELU(), nn.Linear(2 * size, size))

        self.stem = nn.Conv2d(3, width, 16, stride=16)
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(2 * depth))
        self.over_patches = nn.ModuleList(layers(patches) for _ in range(depth))
        self.over_channels = nn.ModuleList(layers(width) for _ in range(depth))
        self.head = nn.Linear(width, 1000)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """Scores of each class."""
        x = self.stem(images).flatten(2).transpose(1, 2)
        for index, (patches, channels) in enumerate(zip(self.over_patches, self.over_channels, strict=True)):
            x = x + patches(self.norms[2 * index](x).transpose(1, 2)).transpose(1, 2)
            x = x + channels(self.norms[2 * index + 1](x))
        return self.head(x.mean(1))


class Gru(nn.Module):
    """A bidirectional GRU that classifies a sequence."""

    def __init__(self, width: int, words: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(words, width)
        self.gru = nn.GRU(width, width, batch_first=True, bidirectional=True)
        self.head = nn.Linear(2 * width, 1000)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """Scores of each class."""
        return self.head(self.gru(self.embedding(tokens))[0].mean(1))


class Mlp(nn.Module):
    """Wide linear layers with dropout over a table's columns."""

    def __init__(self, columns: int, width: int, depth: int) -> None:
        super().__init__()
        layers: list[nn.Module] = [nn.Linear(columns, width), nn.ReLU()]
        for _ in range(depth):
            layers += [nn.Linear(width, width), nn.BatchNorm1d(width), nn.ReLU(), nn.Dropout(0.1)]
        self.layers = nn.Sequential(*layers, nn.Linear(width, 10))

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        """Scores of each class."""
        return self.layers(rows)


def _images(size: int) -> base.Data:
    return lambda n, at: (torch.randn(n, 3, size, size, device=at), torch.randint(1000, (n,), device=at))


def _pixels(size: int, classes: int) -> base.Data:
    return lambda n, at: (
        torch.randn(n, 3, size, size, device=at),
        torch.randint(classes, (n, size * size), device=at),
    )


def _tokens(words: int, length: int, *, each: bool) -> base.Data:
    shape, labels = ((length,), words) if each else ((), 1000)
    return lambda n, at: (
        torch.randint(words, (n, length), device=at),
        torch.randint(labels, (n, *shape), device=at),
    )


def _ids(rows: int, tables: int) -> base.Data:
    return lambda n, at: (torch.randint(rows, (n, tables), device=at), torch.randint(2, (n,), device=at))


def _columns(count: int) -> base.Data:
    return lambda n, at: (torch.randn(n, count, device=at), torch.randint(10, (n,), device=at))


def truth_models(*, small: bool) -> base.Models:
    """The 15 models, each with its smaller batch; those of toy size have the same names."""

    def pick(
        make: Callable[..., nn.Module], toy: tuple[int, ...], full: tuple[int, ...]
    ) -> Callable[[], nn.Module]:
        return lambda: make(*(toy if small else full))

    def encoder(*sizes: int) -> nn.Module:
        return base.Transformer(*sizes, causal=False)

    def decoder(*sizes: int) -> nn.Module:
        return base.Transformer(*sizes, causal=True)

    image, patches = (32, 4) if small else (224, 196)
    words = 100 if small else 32_000

    def batch(full: int) -> int:
        return 2 if small else full

    return {
        "resnet": (pick(base.ConvNet, (8,), (96,)), _images(image), batch(32)),
        "vgg": (pick(Vgg, (4, 16), (64, 4096)), _images(image), batch(32)),
        "resnext": (pick(ResNeXt, (8, 4, 1), (256, 32, 8)), _images(image), batch(32)),
        "mobilenet": (pick(base.SeparableNet, (8,), (64,)), _images(image), batch(32)),
        "convnext": (pick(ConvNeXt, (8, 1), (192, 9)), _images(image), batch(32)),
        "unet": (pick(UNet, (4, 3), (64, 19)), _pixels(16 if small else 256, 3 if small else 19), batch(4)),
        "mixer": (pick(Mixer, (16, 4, 1), (512, patches, 8)), _images(32 if small else 224), batch(64)),
        "vit-small": (pick(encoder, (64, 1, 100), (384, 12, 1000)), _tokens(100, 16 if small else 197, each=False), batch(64)),
        "bert": (pick(encoder, (64, 1, words), (768, 12, words)), _tokens(words, 24 if small else 512, each=False), batch(8)),
        "gpt-medium": (pick(decoder, (64, 2, words), (1024, 24, words)), _tokens(words, 16 if small else 512, each=True), batch(4)),
        "gpt-long": (pick(decoder, (64, 1, words), (768, 12, words)), _tokens(words, 48 if small else 2048, each=True), batch(2)),
        "lstm-language": (pick(base.Recurrent, (32, words), (1536, words)), _tokens(words, 8 if small else 128, each=True), batch(16)),
        "gru": (pick(Gru, (16, words), (512, words)), _tokens(words, 8 if small else 256, each=False), batch(64)),
        "recommender-wide": (
            pick(base.Recommender, (200, 8, 4), (500_000, 128, 12)),
            _ids(200 if small else 500_000, 4 if small else 12),
            batch(8192),
        ),
        "mlp": (pick(Mlp, (16, 16, 1), (1024, 4096, 6)), _columns(16 if small else 1024), batch(2048)),
    }  # fmt: skip


def main() -> int:
    """Measure, or train one model; `--only` with names and commas measures no others."""
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument("--only", default="")
    options, sys.argv[1:] = parser.parse_known_args()
    only = options.only.split(",") if options.only else []

    def table(*, small: bool) -> base.Models:
        known = truth_models(small=small)
        return {name: known[name] for name in only or known}

    return base.main(table)


if __name__ == "__main__":
    sys.exit(main())
