import torch
from torch import nn

from aurora.registry import register


@register("unet")
class UNet(nn.Module):
    def __init__(self, width=32):
        super().__init__()
        self.down = nn.Sequential(nn.Conv2d(1, width, 3, 2, 1), nn.SiLU())
        self.up = nn.Sequential(nn.ConvTranspose2d(width, width, 4, 2, 1), nn.SiLU())
        self.out = nn.Conv2d(width + 1, 1, 3, padding=1)

    def forward(self, x):
        return self.out(torch.cat([x, self.up(self.down(x))], dim=1))


@register("plain")
class Plain(nn.Sequential):
    def __init__(self, width=64):
        super().__init__(nn.Conv2d(1, width, 3, padding=1), nn.SiLU(), nn.Conv2d(width, 1, 3, padding=1))
