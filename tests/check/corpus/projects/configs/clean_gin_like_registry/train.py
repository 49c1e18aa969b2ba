"""Later files override earlier ones: settings.json alone is for a quick look on a laptop."""

import json
import sys
from pathlib import Path

import torch
from torch import nn
from torch.utils.data import DataLoader
from torchvision.datasets import SVHN
from torchvision.models import resnet18
from torchvision.transforms import ToTensor


def main(paths):
    settings = {}
    for path in paths or ["settings.json"]:
        settings |= json.loads(Path(path).read_text())
    device = torch.device(settings["device"])
    data = SVHN("data", download=True, transform=ToTensor())
    loader = DataLoader(
        data, batch_size=settings["batch_size"], shuffle=True, num_workers=settings["num_workers"]
    )
    model = resnet18(num_classes=10).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, nesterov=True)
    for epoch in range(settings["epochs"]):
        model.train()
        for images, labels in loader:
            loss = nn.functional.cross_entropy(model(images.to(device)), labels.to(device))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        print(epoch, loss.item())
    torch.save(model.state_dict(), "svhn.pt")


if __name__ == "__main__":
    main(sys.argv[1:])
