"""Two inputs by name from an NPZ, through the default input_fn."""

import os

import torch
from torch import nn


class TwoTowers(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.zeros(1))

    def forward(self, user, item):
        return (user * item).sum(dim=1) * self.scale


def model_fn(model_dir):
    model = TwoTowers()
    model.load_state_dict(torch.load(os.path.join(model_dir, "weights.pt"), map_location="cpu"))
    return model.to("cuda" if torch.cuda.is_available() else "cpu")
