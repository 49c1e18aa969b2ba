from torch import nn


class Generator(nn.Sequential):
    def __init__(self, width=64):
        super().__init__(
            nn.Conv2d(3, width, 7, padding=3), nn.InstanceNorm2d(width), nn.ReLU(),
            nn.Conv2d(width, 2 * width, 3, 2, 1), nn.InstanceNorm2d(2 * width), nn.ReLU(),
            nn.ConvTranspose2d(2 * width, width, 4, 2, 1), nn.InstanceNorm2d(width), nn.ReLU(),
            nn.Conv2d(width, 3, 7, padding=3), nn.Tanh(),
        )
