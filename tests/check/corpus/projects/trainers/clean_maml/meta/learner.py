import torch
from torch import nn
from torch.func import functional_call


class Learner:
    """MAML: the inner steps build a graph on purpose, and only the outer optimizer has gradients to clear."""

    def __init__(self, device, inner_lr=0.01, inner_steps=3):
        self.net = nn.Sequential(nn.Linear(1, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 1))
        self.net.to(device)
        self.inner_lr, self.inner_steps = inner_lr, inner_steps
        self.optimizer = torch.optim.Adam(self.net.parameters(), lr=1e-3)

    def adapt(self, support):
        x, y = support
        weights = dict(self.net.named_parameters())
        for _ in range(self.inner_steps):
            loss = nn.functional.mse_loss(functional_call(self.net, weights, (x,)), y)
            gradients = torch.autograd.grad(loss, list(weights.values()), create_graph=True)
            weights = {
                name: weight - self.inner_lr * gradient
                for (name, weight), gradient in zip(weights.items(), gradients)
            }
        return weights

    def step(self, tasks):
        losses = []
        for support, (x, y) in tasks:
            weights = self.adapt(support)
            losses.append(nn.functional.mse_loss(functional_call(self.net, weights, (x,)), y))
        loss = torch.stack(losses).mean()
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        return loss.item()

    def evaluate(self, tasks):
        errors = []
        for support, (x, y) in tasks:
            weights = self.adapt(support)
            with torch.no_grad():
                errors.append(nn.functional.mse_loss(functional_call(self.net, weights, (x,)), y).item())
        return sum(errors) / len(errors)
