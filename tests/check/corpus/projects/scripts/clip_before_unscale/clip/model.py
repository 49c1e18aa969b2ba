import torch
from torch import nn
from torchvision.models import resnet50


class TwoTower(nn.Module):
    def __init__(self, vocab, dim=512):
        super().__init__()
        self.image = resnet50(num_classes=dim)
        self.embed = nn.EmbeddingBag(vocab, dim, mode="mean", padding_idx=0)
        self.text = nn.Sequential(nn.Linear(dim, dim), nn.GELU(), nn.Linear(dim, dim))
        self.scale = nn.Parameter(torch.tensor(2.659))

    def forward(self, pixels, tokens):
        return self.image(pixels), self.text(self.embed(tokens)), self.scale
