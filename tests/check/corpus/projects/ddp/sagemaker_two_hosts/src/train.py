import argparse
import os

import torch
from torch import nn
from torch.utils.data import DataLoader
from torchvision import models

from shelves import shelf_dataset


def parse():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--lr", type=float, default=0.05)
    return parser.parse_args()


def main():
    args = parse()
    device = torch.device("cuda")
    dataset = shelf_dataset(os.environ["SM_CHANNEL_TRAIN"])
    loader = DataLoader(dataset, 64, shuffle=True, num_workers=10, pin_memory=True)
    model = models.convnext_tiny(num_classes=len(dataset.classes)).to(device)
    opt = torch.optim.SGD(model.parameters(), args.lr, momentum=0.9)
    for epoch in range(args.epochs):
        model.train()
        for x, y in loader:
            x, y = x.to(device, non_blocking=True), y.to(device, non_blocking=True)
            loss = nn.functional.cross_entropy(model(x), y)
            opt.zero_grad()
            loss.backward()
            opt.step()
        print(f"epoch {epoch}: loss {loss.item():.4f}")
    torch.save(model.state_dict(), os.path.join(os.environ["SM_MODEL_DIR"], "model.pt"))


if __name__ == "__main__":
    main()
