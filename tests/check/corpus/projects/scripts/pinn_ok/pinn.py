"""Burgers' equation with a physics-informed network: derivatives come from autograd."""
import argparse
import math

import torch
from torch import nn


class Net(nn.Module):
    def __init__(self, width=64, depth=6):
        super().__init__()
        layers = [nn.Linear(2, width), nn.Tanh()]
        for _ in range(depth):
            layers += [nn.Linear(width, width), nn.Tanh()]
        self.net = nn.Sequential(*layers, nn.Linear(width, 1))

    def forward(self, x, t):
        return self.net(torch.cat([x, t], 1))


def residual(net, x, t, nu=0.01 / math.pi):
    x.requires_grad_(True)
    t.requires_grad_(True)
    u = net(x, t)
    ones = torch.ones_like(u)
    u_t, u_x = torch.autograd.grad(u, (t, x), ones, create_graph=True)
    (u_xx,) = torch.autograd.grad(u_x, x, ones, create_graph=True)
    return u_t + u * u_x - nu * u_xx


def points(n, device, dtype):
    x = torch.rand(n, 1, device=device, dtype=dtype) * 2 - 1
    return x, torch.rand(n, 1, device=device, dtype=dtype)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=20_000)
    parser.add_argument("--points", type=int, default=10_000)
    args = parser.parse_args()
    device = torch.device("cuda")
    net = Net().to(device)
    dtype = next(net.parameters()).dtype
    optimizer = torch.optim.Adam(net.parameters(), 1e-3)
    x0, _ = points(2_000, device, dtype)
    t0 = torch.zeros_like(x0)
    u0 = -torch.sin(math.pi * x0)
    for step in range(args.steps):
        optimizer.zero_grad()
        x, t = points(args.points, device, dtype)
        loss = residual(net, x, t).square().mean() + (net(x0, t0) - u0).square().mean()
        loss.backward()
        optimizer.step()
        if step % 500 == 0:
            print(f"step {step} loss {loss.item():.6f}")
    torch.save(net.state_dict(), "burgers.pt")


if __name__ == "__main__":
    main()
