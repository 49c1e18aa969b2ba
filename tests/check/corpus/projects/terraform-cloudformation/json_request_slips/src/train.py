import argparse
import os

import torch
from torch import nn
from torch.utils.data import DataLoader
from torchvision import datasets, models, transforms


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--lr", type=float, default=1e-3)
    args = parser.parse_args()
    device = torch.device("cuda")
    transform = transforms.Compose([transforms.Resize((96, 96)), transforms.ToTensor()])
    signs = datasets.ImageFolder(os.environ["SM_CHANNEL_TRAIN"], transform)
    loader = DataLoader(signs, batch_size=128, shuffle=True, num_workers=6, pin_memory=True)
    model = models.resnet18(num_classes=len(signs.classes)).to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=args.lr)
    first, path = 0, "/opt/ml/checkpoints/last.pt"
    if os.path.exists(path):
        stored = torch.load(path, map_location=device, weights_only=True)
        model.load_state_dict(stored["model"])
        optimizer.load_state_dict(stored["optimizer"])
        first = stored["epoch"] + 1
    for epoch in range(first, args.epochs):
        model.train()
        for images, labels in loader:
            images, labels = images.to(device, non_blocking=True), labels.to(device, non_blocking=True)
            loss = nn.functional.cross_entropy(model(images), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        state = {"epoch": epoch, "model": model.state_dict(), "optimizer": optimizer.state_dict()}
        torch.save(state, path)
    torch.save(model.state_dict(), os.path.join(os.environ["SM_MODEL_DIR"], "model.pt"))


if __name__ == "__main__":
    main()
