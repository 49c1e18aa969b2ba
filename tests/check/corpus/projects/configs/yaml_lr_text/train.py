import argparse

import torch
import yaml
from torch import nn
from torch.utils.data import DataLoader
from torchvision import datasets, models, transforms


def read_settings(path):
    with open(path) as file:
        return yaml.safe_load(file)


def make_loader(settings):
    transform = transforms.Compose(
        [transforms.RandomResizedCrop(settings["image_size"]), transforms.ToTensor()]
    )
    data = datasets.ImageFolder(settings["root"], transform)
    return DataLoader(
        data, batch_size=settings["batch_size"], shuffle=True, num_workers=settings["num_workers"], pin_memory=True
    )


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--config", default="config/base.yaml")
    settings = read_settings(parser.parse_args().config)
    device = torch.device(settings["device"])
    loader = make_loader(settings["data"])
    model = models.get_model(settings["model"]["name"], num_classes=settings["model"]["classes"]).to(device)
    optim = settings["optim"]
    optimizer = torch.optim.AdamW(model.parameters(), lr=optim["lr"], weight_decay=optim["weight_decay"])
    for epoch in range(optim["epochs"]):
        model.train()
        for images, labels in loader:
            images, labels = images.to(device, non_blocking=True), labels.to(device, non_blocking=True)
            loss = nn.functional.cross_entropy(model(images), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        torch.save(model.state_dict(), f"insects-{epoch:03d}.pt")


if __name__ == "__main__":
    main()
