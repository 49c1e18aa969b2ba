import math

import torch
from torch import nn


class LoRALinear(nn.Module):
    """A frozen linear layer plus a trained low-rank update."""

    def __init__(self, base: nn.Linear, rank: int = 8, alpha: int = 16):
        super().__init__()
        self.base = base.requires_grad_(False)
        self.a = nn.Parameter(torch.empty(rank, base.in_features))
        self.b = nn.Parameter(torch.zeros(base.out_features, rank))
        nn.init.kaiming_uniform_(self.a, a=math.sqrt(5))
        self.scale = alpha / rank

    def forward(self, x):
        return self.base(x) + (x @ self.a.T @ self.b.T) * self.scale


def inject(model, names=("query", "value"), rank=8):
    model.requires_grad_(False)
    for module in list(model.modules()):
        for name, child in list(module.named_children()):
            if name in names and isinstance(child, nn.Linear):
                setattr(module, name, LoRALinear(child, rank))
    return [p for p in model.parameters() if p.requires_grad]


def trained_state(model):
    return {name: p.detach().cpu() for name, p in model.named_parameters() if p.requires_grad}
