import torch
from torch import nn


class MaskedAutoencoder(nn.Module):
    def __init__(self, patch=16, width=384, depth=6, ratio=0.75):
        super().__init__()
        self.patch, self.ratio = patch, ratio
        self.embed = nn.Conv2d(3, width, patch, patch)
        layer = nn.TransformerEncoderLayer(width, 6, 4 * width, batch_first=True, norm_first=True)
        self.encoder = nn.TransformerEncoder(layer, depth)
        self.hidden = nn.Parameter(torch.zeros(width))
        self.decoder = nn.Linear(width, 3 * patch**2)

    def forward(self, images):
        target = nn.functional.unfold(images, self.patch, stride=self.patch).transpose(1, 2)
        x = self.embed(images).flatten(2).transpose(1, 2)
        mask = torch.rand(x.shape[:2], device=x.device) < self.ratio
        x = torch.where(mask.unsqueeze(-1), self.hidden.to(x.dtype), x)
        error = (self.decoder(self.encoder(x)) - target).square().mean(dim=-1)
        return (error * mask).sum() / mask.sum()
