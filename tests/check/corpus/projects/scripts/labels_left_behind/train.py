import argparse

import torch
from torch import nn
from torch.utils.data import DataLoader
from torchvision.models import densenet121

from data import Xrays


def parse_args():
    parser = argparse.ArgumentParser()
    parser.add_argument("--table", default="labels.csv")
    parser.add_argument("--folder", default="images")
    parser.add_argument("--epochs", type=int, default=10)
    return parser.parse_args()


def main():
    args = parse_args()
    loader = DataLoader(Xrays(args.table, args.folder), batch_size=32, shuffle=True, num_workers=4, pin_memory=True)
    model = densenet121(weights="IMAGENET1K_V1")
    model.classifier = nn.Linear(1024, 14)
    model = model.cuda()
    optimizer = torch.optim.Adam(model.parameters(), 1e-4)
    for epoch in range(args.epochs):
        model.train()
        total = 0.0
        for x, y in loader:
            x = x.cuda(non_blocking=True)
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()
            total += loss.item()
        print(f"epoch {epoch}: {total / len(loader):.4f}")
    torch.save(model.state_dict(), "xray.pt")


if __name__ == "__main__":
    main()
