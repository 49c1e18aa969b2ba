from einops.layers.torch import Rearrange, Reduce
from torch import nn


class Residual(nn.Module):
    def __init__(self, width, body):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.body = body

    def forward(self, x):
        return x + self.body(self.norm(x))


def mixer(patches=196, width=384, depth=8, classes=10):
    def block():
        tokens = nn.Sequential(
            Rearrange("b p w -> b w p"), nn.Linear(patches, 2 * patches), nn.GELU(),
            nn.Linear(2 * patches, patches), Rearrange("b w p -> b p w"),
        )
        channels = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))
        return nn.Sequential(Residual(width, tokens), Residual(width, channels))

    return nn.Sequential(
        Rearrange("b c (h p1) (w p2) -> b (h w) (p1 p2 c)", p1=16, p2=16),
        nn.Linear(768, width),
        *[block() for _ in range(depth)],
        nn.LayerNorm(width),
        Reduce("b p w -> b w", "mean"),
        nn.Linear(width, classes),
    )
