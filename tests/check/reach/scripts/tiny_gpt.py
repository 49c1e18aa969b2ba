"""The model of gpt_with_configurator.py."""

from dataclasses import dataclass

import torch
import torch.nn as nn
from torch.nn import functional as F


@dataclass
class Config:
    block_size: int = 1024
    vocab_size: int = 50304
    width: int = 768


class GPT(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.embed = nn.Embedding(config.vocab_size, config.width)
        self.head = nn.Linear(config.width, config.vocab_size, bias=False)

    def forward(self, idx, targets=None):
        logits = self.head(self.embed(idx))
        loss = F.cross_entropy(logits.flatten(0, 1), targets.flatten()) if targets is not None else None
        return logits, loss

    def configure_optimizers(self, lr):
        return torch.optim.AdamW(self.parameters(), lr=lr)
