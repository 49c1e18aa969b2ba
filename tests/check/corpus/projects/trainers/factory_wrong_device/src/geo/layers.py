from torch import nn


class Encoder(nn.Module):
    def __init__(self, width, depth):
        super().__init__()
        self.width = width
        blocks = [nn.Conv2d(4, width, 3, padding=1), nn.GELU()]
        for _ in range(depth):
            blocks += [nn.Conv2d(width, width, 3, padding=1), nn.GroupNorm(8, width), nn.GELU()]
        self.blocks = nn.Sequential(*blocks)

    def forward(self, image):
        return self.blocks(image)
