"""A physics-informed network for Burgers' equation."""

import math

import torch


def residual(net, points, viscosity=0.01 / math.pi):
    points = points.requires_grad_(True)
    u = net(points)
    first = torch.autograd.grad(u.sum(), points, create_graph=True)[0]
    second = torch.autograd.grad(first[:, 1].sum(), points, create_graph=True)[0]
    return first[:, 0:1] + u * first[:, 1:2] - viscosity * second[:, 1:2]


def samples(count, device):
    inside = torch.rand(count, 2, device=device) * torch.tensor([1.0, 2.0], device=device)
    inside = inside - torch.tensor([0.0, 1.0], device=device)
    start = torch.stack([torch.zeros(count, device=device), torch.linspace(-1, 1, count, device=device)], 1)
    return inside, start, -torch.sin(math.pi * start[:, 1:2])
