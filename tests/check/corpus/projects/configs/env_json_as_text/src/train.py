import json
import os

import torch
from torch import nn
from torch.utils.data import DataLoader
from torchvision import datasets, transforms

BLOCKS = json.loads(os.environ.get("BLOCKS", "[32, 64]"))
AUGMENT = json.loads(os.environ.get("AUGMENT", "false"))


def network(classes):
    layers, width = [], 3
    for block in BLOCKS:
        layers += [nn.Conv2d(width, block, 3, 2, 1), nn.BatchNorm2d(block), nn.ReLU()]
        width = block
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(width, classes))


def main():
    extra = [transforms.RandomHorizontalFlip()] if AUGMENT else []
    transform = transforms.Compose([transforms.Resize((128, 128)), *extra, transforms.ToTensor()])
    data = datasets.ImageFolder(os.environ["SM_CHANNEL_SHELLS"], transform)
    loader = DataLoader(data, batch_size=64, shuffle=True, num_workers=3, pin_memory=True)
    device = torch.device("cuda")
    model = network(len(data.classes)).to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    for epoch in range(20):
        model.train()
        for images, labels in loader:
            loss = nn.functional.cross_entropy(model(images.to(device)), labels.to(device))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        print(epoch, loss.item(), flush=True)
    torch.save(model.state_dict(), os.path.join(os.environ["SM_MODEL_DIR"], "shells.pt"))


if __name__ == "__main__":
    main()
