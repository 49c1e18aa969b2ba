import torch
from torch import nn

from pinn.problem import residual, samples


class Solver:
    """Adam first, then L-BFGS, whose closure is called several times a step."""

    def __init__(self, width=64, depth=6, device="cuda"):
        layers = [nn.Linear(2, width), nn.Tanh()]
        for _ in range(depth):
            layers += [nn.Linear(width, width), nn.Tanh()]
        self.device = torch.device(device)
        self.net = nn.Sequential(*layers, nn.Linear(width, 1)).to(self.device)
        self.inside, self.start, self.known = samples(10_000, self.device)
        self.log = []

    def loss(self):
        physics = residual(self.net, self.inside.detach()).square().mean()
        return physics + (self.net(self.start) - self.known).square().mean()

    def warm_up(self, steps):
        optimizer = torch.optim.Adam(self.net.parameters(), lr=1e-3)
        for step in range(steps):
            optimizer.zero_grad()
            loss = self.loss()
            loss.backward()
            optimizer.step()
            if step % 500 == 0:
                self.log.append((step, loss.item()))

    def refine(self, steps):
        optimizer = torch.optim.LBFGS(self.net.parameters(), max_iter=steps, line_search_fn="strong_wolfe")

        def closure():
            optimizer.zero_grad()
            loss = self.loss()
            loss.backward()
            return loss

        optimizer.step(closure)

    def field(self, points):
        """The solution at points, with its gradient in space: this needs autograd."""
        self.net.eval()
        points = points.to(self.device).requires_grad_(True)
        u = self.net(points)
        gradient = torch.autograd.grad(u.sum(), points)[0]
        return u.detach().cpu().numpy(), gradient[:, 1].cpu().numpy()
