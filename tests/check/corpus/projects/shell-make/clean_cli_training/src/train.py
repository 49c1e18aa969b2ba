import argparse
import os

import torch
from torch import nn
from torch.utils.data import DataLoader
from torchvision import datasets, models, transforms


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=5)
    args, _ = parser.parse_known_args()
    device = torch.device("cuda")
    transform = transforms.Compose([transforms.Resize((128, 128)), transforms.ToTensor()])
    data = datasets.ImageFolder(os.environ["SM_CHANNEL_POLLEN"], transform)
    loader = DataLoader(data, batch_size=64, shuffle=True, num_workers=4, pin_memory=True)
    model = models.resnet18(num_classes=len(data.classes)).to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    model.train()
    for epoch in range(args.epochs):
        for images, labels in loader:
            loss = nn.functional.cross_entropy(model(images.to(device)), labels.to(device))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        print("epoch", epoch, "loss", loss.item(), flush=True)
    torch.save(model.state_dict(), os.path.join(os.environ["SM_MODEL_DIR"], "pollen.pt"))


if __name__ == "__main__":
    main()
