import torch
from torch import nn

MEAN, STD = [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]


class Normalize(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("mean", torch.tensor(MEAN).view(1, 3, 1, 1))
        self.register_buffer("std", torch.tensor(STD).view(1, 3, 1, 1))

    def forward(self, x):
        return (x - self.mean) / self.std


class ViT(nn.Module):
    def __init__(self, classes, dim=384, depth=8, heads=6, patch=16, size=224):
        super().__init__()
        self.normalize = Normalize()
        self.patches = nn.Conv2d(3, dim, patch, patch)
        self.pos = nn.Embedding((size // patch) ** 2, dim)
        layer = nn.TransformerEncoderLayer(dim, heads, 4 * dim, activation="gelu", batch_first=True, norm_first=True)
        self.blocks = nn.TransformerEncoder(layer, depth, enable_nested_tensor=False)
        self.head = nn.Sequential(nn.LayerNorm(dim), nn.Linear(dim, classes))

    def forward(self, x):
        x = self.patches(self.normalize(x)).flatten(2).transpose(1, 2)
        pos = torch.arange(x.size(1), device=x.device)
        x = self.blocks(x + self.pos(pos))
        return self.head(x.mean(1))
