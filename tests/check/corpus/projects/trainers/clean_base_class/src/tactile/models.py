import torch
from torch import nn


def tower(channels):
    return nn.Sequential(
        nn.Conv2d(channels, 64, 5, 2), nn.BatchNorm2d(64), nn.ReLU(), nn.Conv2d(64, 128, 3, 2), nn.ReLU(),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(128, 128),
    )


class TouchSight(nn.Module):
    def __init__(self):
        super().__init__()
        self.touch = tower(2)
        self.sight = tower(3)
        self.scale = nn.Parameter(torch.tensor(2.0))
