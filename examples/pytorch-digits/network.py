"""The network, in its own module, so that it can be built without the training script."""

import torch
from torch import nn


class DigitNet(nn.Module):
    """Classifies digits of 8 by 8 pixels.

    Args:
        channels: filters of the first convolution; the second has twice as many.
        dropout: share of features dropped in training.
    """

    def __init__(self, channels: int = 32, dropout: float = 0.3) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(1, channels, 3, padding=1),
            nn.ReLU(),
            nn.Conv2d(channels, 2 * channels, 3, padding=1),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Flatten(),
            nn.Dropout(dropout),
            nn.Linear(2 * channels * 4 * 4, 10),
        )

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """Logits, of shape (count, 10), of images of shape (count, 1, 8, 8)."""
        return self.layers(images)
