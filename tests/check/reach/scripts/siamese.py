"""Learns whether two images show the same digit."""

import argparse
import random

import torch
import torch.nn as nn
from torch.utils.data import DataLoader, Dataset
from torchvision import datasets


class Pairs(Dataset):
    def __init__(self, root, train):
        self.images = datasets.MNIST(root, train=train, download=True)

    def __len__(self):
        return len(self.images)

    def __getitem__(self, index):
        first, label = self.images.data[index], self.images.targets[index]
        other = random.randrange(len(self.images))
        same = (self.images.targets[other] == label).float()
        return first.unsqueeze(0).float(), self.images.data[other].unsqueeze(0).float(), same


class Twin(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Flatten(), nn.Linear(784, 128), nn.ReLU())
        self.head = nn.Sequential(nn.Linear(256, 1), nn.Sigmoid())

    def forward(self, left, right):
        return self.head(torch.cat((self.body(left), self.body(right)), 1)).squeeze()


def train(args, model, device, loader, optimizer, epoch):
    model.train()
    criterion = nn.BCELoss()
    for step, (left, right, same) in enumerate(loader):
        left, right, same = left.to(device), right.to(device), same.to(device)
        optimizer.zero_grad()
        loss = criterion(model(left, right), same)
        loss.backward()
        optimizer.step()
        if step % 100 == 0:
            print(epoch, step, loss.item())
            if args.dry_run:
                break


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=14)
    parser.add_argument("--no-cuda", action="store_true", default=False)
    parser.add_argument("--dry-run", action="store_true", default=False)
    parser.add_argument("--save-model", action="store_true", default=False)
    args = parser.parse_args()
    use_cuda = not args.no_cuda and torch.cuda.is_available()
    device = torch.device("cuda" if use_cuda else "cpu")
    loader = DataLoader(Pairs("../data", True), batch_size=64, num_workers=2)
    model = Twin().to(device)
    optimizer = torch.optim.Adadelta(model.parameters(), lr=1.0)
    for epoch in range(1, args.epochs + 1):
        train(args, model, device, loader, optimizer, epoch)
    if args.save_model:
        torch.save(model.state_dict(), "twins.pt")


if __name__ == "__main__":
    main()
