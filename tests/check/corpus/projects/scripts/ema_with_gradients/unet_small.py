import math

import torch
from torch import nn


class TimeEmbedding(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.dim = dim
        self.net = nn.Sequential(nn.Linear(dim, dim), nn.SiLU(), nn.Linear(dim, dim))

    def forward(self, t):
        half = self.dim // 2
        freq = torch.exp(-math.log(10000) * torch.arange(half, device=t.device) / half)
        angle = t.float()[:, None] * freq[None]
        return self.net(torch.cat([angle.sin(), angle.cos()], -1))


class Denoiser(nn.Module):
    def __init__(self, width=128):
        super().__init__()
        self.time = TimeEmbedding(width)
        self.inp = nn.Conv2d(3, width, 3, padding=1)
        self.mid = nn.ModuleList(
            nn.Sequential(nn.GroupNorm(8, width), nn.SiLU(), nn.Conv2d(width, width, 3, padding=1)) for _ in range(6)
        )
        self.out = nn.Conv2d(width, 3, 3, padding=1)

    def forward(self, x, t):
        h = self.inp(x)
        emb = self.time(t)[:, :, None, None]
        for block in self.mid:
            h = h + block(h + emb)
        return self.out(h)
