"""The network, for training and for the endpoint."""

from torch import nn


def build() -> nn.Sequential:
    """A network for images of shape (count, 1, 8, 8)."""
    return nn.Sequential(
        nn.Conv2d(1, 32, 3, padding=1),
        nn.ReLU(),
        nn.Conv2d(32, 64, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(64 * 4 * 4, 10),
    )
