import os

import torch
from settings import load
from torch import nn
from torch.utils.data import DataLoader
from torchvision import datasets, models, transforms


def main():
    settings = load()
    device = torch.device(settings["device"])
    transform = transforms.Compose([transforms.RandomResizedCrop(192), transforms.ToTensor()])
    data = datasets.ImageFolder(settings["paths"]["train"], transform)
    loader = DataLoader(data, shuffle=True, pin_memory=True, **settings["loader"])
    model = models.mobilenet_v2(num_classes=len(data.classes)).to(device)
    optimizer = torch.optim.RMSprop(model.parameters(), lr=settings["optimizer"]["lr"])
    for epoch in range(20):
        model.train()
        for images, labels in loader:
            images, labels = images.to(device, non_blocking=True), labels.to(device, non_blocking=True)
            loss = nn.functional.cross_entropy(model(images), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        print(epoch, loss.item(), flush=True)
    torch.save(model.state_dict(), os.path.join(settings["paths"]["model"], "mobilenet.pt"))


if __name__ == "__main__":
    main()
