import argparse

import torch
from torch import nn

from sonar.data import loader
from sonar.device import pick


def network(classes=5):
    return nn.Sequential(
        nn.Conv1d(1, 32, 11, 4), nn.BatchNorm1d(32), nn.ReLU(), nn.Conv1d(32, 64, 7, 2), nn.BatchNorm1d(64),
        nn.ReLU(), nn.AdaptiveMaxPool1d(8), nn.Flatten(), nn.Linear(512, classes),
    )


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=60)
    parser.add_argument("--gpu", type=int, default=0)
    args = parser.parse_args()
    device = pick(args.gpu)
    train, test = loader("train.npz", 128, True), loader("test.npz", 512, False)
    model = network().to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, args.epochs)
    for epoch in range(args.epochs):
        model.train()
        for pings, labels in train:
            pings, labels = pings.unsqueeze(1).to(device), labels.to(device)
            loss = nn.functional.cross_entropy(model(pings), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        scheduler.step
        model.eval()
        right = 0
        with torch.no_grad():
            for pings, labels in test:
                right += (model(pings.unsqueeze(1).to(device)).argmax(1) == labels.to(device)).sum().item()
        print(f"{epoch} {right / len(test.dataset):.3f}", flush=True)


if __name__ == "__main__":
    main()
