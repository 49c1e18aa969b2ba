"""The style of AWS's own examples: the network in a module beside, weights in model.pth, defaults for the rest."""

import os

import torch
from network import Net


def model_fn(model_dir):
    model = torch.nn.DataParallel(Net()) if torch.cuda.device_count() > 1 else Net()
    with open(os.path.join(model_dir, "model.pth"), "rb") as f:
        model.load_state_dict(torch.load(f, map_location=torch.device("cpu")))
    return model
