"""Accelerate with a configuration dictionary, as its own examples do."""

import argparse

import torch
from accelerate import Accelerator
from torch.optim.lr_scheduler import OneCycleLR
from torch.utils.data import DataLoader
from torchvision.datasets import FakeData
from torchvision.models import resnet50
from torchvision.transforms import ToTensor


def training_function(config, args):
    accelerator = Accelerator(cpu=args.cpu, mixed_precision=args.mixed_precision)
    data = FakeData(1000, (3, 224, 224), 10, transform=ToTensor())
    loader = DataLoader(data, shuffle=True, batch_size=int(config["batch_size"]), num_workers=4)
    model = resnet50(num_classes=10).to(accelerator.device)
    optimizer = torch.optim.Adam(params=model.parameters(), lr=config["lr"] / 25)
    scheduler = OneCycleLR(optimizer, max_lr=config["lr"], epochs=3, steps_per_epoch=len(loader))
    model, optimizer, loader, scheduler = accelerator.prepare(model, optimizer, loader, scheduler)
    for epoch in range(config["num_epochs"]):
        model.train()
        for images, labels in loader:
            loss = torch.nn.functional.cross_entropy(model(images), labels)
            accelerator.backward(loss)
            optimizer.step()
            scheduler.step()
            optimizer.zero_grad()
        model.eval()
        accurate = torch.tensor(0.0)
        with torch.no_grad():
            for images, labels in loader:
                found = accelerator.gather_for_metrics(model(images).argmax(dim=-1) == labels)
                accurate += found.long().sum().cpu()
        accelerator.print(epoch, accurate.item() / len(data))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--mixed_precision", type=str, default=None, choices=["no", "fp16", "bf16", "fp8"])
    parser.add_argument("--cpu", action="store_true")
    args = parser.parse_args()
    training_function({"lr": 3e-2, "num_epochs": 3, "seed": 42, "batch_size": 64}, args)


if __name__ == "__main__":
    main()
