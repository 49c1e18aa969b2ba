import torch
from torch import nn

from geo.layers import Encoder


def make_model(kind):
    if kind == "small":
        body = Encoder(32, 2)
    elif kind == "large":
        body = Encoder(96, 6)
    else:
        raise ValueError(f"no model {kind}")
    return nn.Sequential(body, nn.Conv2d(body.width, 1, 1))


def make_optimizer(name, model, lr):
    choices = {
        "adam": torch.optim.Adam(model.parameters, lr=lr),
        "sgd": torch.optim.SGD(model.parameters(), lr=lr, momentum=0.9),
    }
    return choices[name]
