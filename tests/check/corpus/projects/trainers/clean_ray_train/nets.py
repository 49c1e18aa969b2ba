from torch import nn


def make_net(width):
    return nn.Sequential(
        nn.Conv2d(1, width // 2, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(width // 2, width, 3), nn.ReLU(),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(width, 10),
    )
