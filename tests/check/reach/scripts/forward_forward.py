"""Trains each layer by itself, without back-propagation through the network."""

import argparse

import torch
import torch.nn as nn
from torch.optim import Adam
from torch.utils.data import DataLoader
from torchvision.datasets import MNIST
from torchvision.transforms import ToTensor


class GreedyLayer(nn.Linear):
    def __init__(self, inputs, outputs):
        super().__init__(inputs, outputs)
        self.opt = Adam(self.parameters(), lr=args.lr)
        self.threshold = args.threshold

    def forward(self, x):
        return torch.relu(x / (x.norm(2, 1, keepdim=True) + 1e-4) @ self.weight.T + self.bias)

    def learn(self, good, bad):
        for step in range(args.epochs):
            goodness = self.forward(good).pow(2).mean(1)
            badness = self.forward(bad).pow(2).mean(1)
            loss = torch.log1p(torch.exp(torch.cat([self.threshold - goodness, badness - self.threshold]))).mean()
            self.opt.zero_grad()
            loss.backward()
            self.opt.step()
            if step % args.log_interval == 0:
                print(step, loss.item())
        return self.forward(good).detach(), self.forward(bad).detach()


class Stack(nn.Module):
    def __init__(self, sizes):
        super().__init__()
        self.layers = [GreedyLayer(a, b).to(device) for a, b in zip(sizes, sizes[1:])]

    def learn(self, good, bad):
        for layer in self.layers:
            good, bad = layer.learn(good, bad)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=1000)
    parser.add_argument("--lr", type=float, default=0.03)
    parser.add_argument("--threshold", type=float, default=2)
    parser.add_argument("--no_cuda", action="store_true")
    parser.add_argument("--save_model", action="store_true", help="keep the layers")
    parser.add_argument("--log-interval", type=int, default=10)
    args = parser.parse_args()
    use_cuda = not args.no_cuda and torch.cuda.is_available()
    device = torch.device("cuda") if use_cuda else torch.device("cpu")
    loader = DataLoader(MNIST("./data/", download=True, transform=ToTensor()), batch_size=5000, num_workers=1)
    stack = Stack([784, 500, 500])
    images, labels = next(iter(loader))
    images, labels = images.to(device), labels.to(device)
    stack.learn(images.flatten(1), images[torch.randperm(len(images))].flatten(1))
    if args.save_model:
        torch.save(stack.state_dict(), "stack.pt")
