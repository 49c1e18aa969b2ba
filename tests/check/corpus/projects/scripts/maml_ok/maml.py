"""First- and second-order MAML on Omniglot tasks; graphs of the inner loop are needed for the outer one."""
import argparse
import random

import torch
import torch.nn.functional as F
from torch import nn
from torch.func import functional_call
from torchvision.datasets import Omniglot
from torchvision.transforms import functional as TF


class Tasks:
    def __init__(self, root, background, ways, shots, device):
        data = Omniglot(root, background=background, download=True)
        by_class = {}
        for image, label in data:
            by_class.setdefault(label, []).append(1 - TF.to_tensor(image.resize((28, 28))))
        self.images = torch.stack([torch.stack(rows) for rows in by_class.values()]).to(device)
        self.ways, self.shots = ways, shots

    def sample(self):
        classes = torch.tensor(random.sample(range(len(self.images)), self.ways), device=self.images.device)
        shuffled = self.images[classes][:, torch.randperm(20, device=self.images.device)]
        labels = torch.arange(self.ways, device=self.images.device)[:, None].expand(-1, 20)
        support, query = shuffled[:, : self.shots].flatten(0, 1), shuffled[:, self.shots :].flatten(0, 1)
        return support, labels[:, : self.shots].flatten(), query, labels[:, self.shots :].flatten()


def network(ways):
    layers = []
    for cin in (1, 64, 64, 64):
        layers += [nn.Conv2d(cin, 64, 3, padding=1), nn.GroupNorm(8, 64), nn.ReLU(), nn.MaxPool2d(2)]
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(64, ways))


def adapt(model, weights, x, y, lr, steps, second_order):
    for _ in range(steps):
        loss = F.cross_entropy(functional_call(model, weights, (x,)), y)
        grads = torch.autograd.grad(loss, weights.values(), create_graph=second_order)
        weights = {name: w - lr * g for (name, w), g in zip(weights.items(), grads)}
    return weights


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--root", default="data")
    parser.add_argument("--ways", type=int, default=5)
    parser.add_argument("--shots", type=int, default=1)
    parser.add_argument("--iterations", type=int, default=10_000)
    parser.add_argument("--first-order", action="store_true")
    args = parser.parse_args()
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    tasks = Tasks(args.root, True, args.ways, args.shots, device)
    model = network(args.ways).to(device)
    optimizer = torch.optim.Adam(model.parameters(), 1e-3)
    for iteration in range(args.iterations):
        optimizer.zero_grad()
        outer = 0.0
        for _ in range(8):
            sx, sy, qx, qy = tasks.sample()
            fast = adapt(model, dict(model.named_parameters()), sx, sy, 0.4, 3, not args.first_order)
            loss = F.cross_entropy(functional_call(model, fast, (qx,)), qy) / 8
            loss.backward()
            outer += loss.item()
        optimizer.step()
        if iteration % 200 == 0:
            print(f"{iteration}: {outer:.4f}")
    torch.save(model.state_dict(), "maml.pt")


if __name__ == "__main__":
    main()
