"""Reads each image row by row."""

from __future__ import print_function

import argparse

import torch
import torch.nn as nn
from torchvision import datasets, transforms


class Rows(nn.Module):
    def __init__(self):
        super(Rows, self).__init__()
        self.rnn = nn.LSTM(input_size=28, hidden_size=64, batch_first=True)
        self.out = nn.Linear(64, 10)

    def forward(self, x):
        states, _ = self.rnn(x.reshape(-1, 28, 28))
        return self.out(states[:, -1])


def train(args, model, device, loader, optimizer):
    model.train()
    for images, labels in loader:
        images, labels = images.to(device), labels.to(device)
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(images), labels)
        loss.backward()
        optimizer.step()
        if args.dry_run:
            break


def main():
    parser = argparse.ArgumentParser(description="rows of digits")
    parser.add_argument("--epochs", type=int, default=14)
    parser.add_argument("--cuda", action="store_true", default=False)
    parser.add_argument("--mps", action="store_true", default=False)
    parser.add_argument("--dry-run", action="store_true", default=False)
    parser.add_argument("--save-model", action="store_true", default=False)
    args = parser.parse_args()
    if args.cuda and not args.mps:
        device = "cuda"
    elif args.mps and not args.cuda:
        device = "mps"
    else:
        device = "cpu"
    device = torch.device(device)
    data = datasets.MNIST("../data", download=True, transform=transforms.ToTensor())
    kwargs = {"num_workers": 1, "pin_memory": True} if args.cuda else {}
    loader = torch.utils.data.DataLoader(data, batch_size=64, shuffle=True, **kwargs)
    model = Rows().to(device)
    optimizer = torch.optim.Adadelta(model.parameters(), lr=0.1)
    for _ in range(args.epochs):
        train(args, model, device, loader, optimizer)
    if args.save_model:
        torch.save(model.state_dict(), "rows.pt")


if __name__ == "__main__":
    main()
