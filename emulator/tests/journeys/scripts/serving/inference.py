"""Serves what `train_torch.py` saved; input and output use the toolkit's defaults."""

import os

import torch


def model_fn(model_dir):
    model = torch.nn.Linear(1, 1)
    model.load_state_dict(torch.load(os.path.join(model_dir, "model.pth"), weights_only=True))
    return model
