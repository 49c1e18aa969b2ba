"""defaults.yaml < files < key=value: only the smoke test stays on the CPU."""

import sys

import torch
from omegaconf import OmegaConf
from torch import nn
from torch.utils.data import DataLoader
from torchvision import datasets, models, transforms


def settings(arguments):
    parts = [OmegaConf.load("defaults.yaml")]
    parts += [OmegaConf.load(argument) for argument in arguments if "=" not in argument]
    parts.append(OmegaConf.from_dotlist([argument for argument in arguments if "=" in argument]))
    return OmegaConf.merge(*parts)


def main():
    config = settings(sys.argv[1:])
    device = torch.device(config.device)
    data = datasets.CIFAR10("data", download=True, transform=transforms.ToTensor())
    loader = DataLoader(data, shuffle=True, **config.loader)
    model = models.resnet18(num_classes=10).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, weight_decay=5e-4)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, config.trainer.epochs)
    for epoch in range(config.trainer.epochs):
        model.train()
        for images, labels in loader:
            loss = nn.functional.cross_entropy(model(images.to(device)), labels.to(device))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        scheduler.step()
        print(epoch, loss.item())
    torch.save(model.state_dict(), "cifar.pt")


if __name__ == "__main__":
    main()
