"""Fabric: setup_dataloaders adds the sampler and moves the batches; the loop stays our own."""

import torch
from lightning.fabric import Fabric
from torch import nn
from torch.utils.data import DataLoader
from torchvision import datasets, models, transforms


def make_loaders():
    transform = transforms.Compose([transforms.Resize((160, 160)), transforms.ToTensor()])
    train = datasets.Imagenette("data", "train", size="160px", transform=transform)
    val = datasets.Imagenette("data", "val", size="160px", transform=transform)
    return (
        DataLoader(train, batch_size=64, shuffle=True, num_workers=6, pin_memory=True, drop_last=True),
        DataLoader(val, batch_size=128, num_workers=6, pin_memory=True),
    )


def validate(fabric, model, loader):
    model.eval()
    right = torch.zeros((), device=fabric.device)
    seen = torch.zeros((), device=fabric.device)
    with torch.no_grad():
        for images, labels in loader:
            right += (model(images).argmax(1) == labels).sum()
            seen += len(labels)
    right, seen = fabric.all_reduce(right, reduce_op="sum"), fabric.all_reduce(seen, reduce_op="sum")
    return (right / seen).item()


def main():
    fabric = Fabric()
    fabric.seed_everything(7)
    with fabric.rank_zero_first():
        train, val = make_loaders()
    model = models.resnet34(num_classes=10)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, weight_decay=1e-4)
    model, optimizer = fabric.setup(model, optimizer)
    train, val = fabric.setup_dataloaders(train, val)
    criterion = nn.CrossEntropyLoss(label_smoothing=0.05)
    best = 0.0
    for epoch in range(25):
        model.train()
        for images, labels in train:
            loss = criterion(model(images), labels)
            fabric.backward(loss)
            fabric.clip_gradients(model, optimizer, max_norm=1.0)
            optimizer.step()
            optimizer.zero_grad()
        accuracy = validate(fabric, model, val)
        fabric.print(f"{epoch}: {accuracy:.4f}")
        if accuracy > best:
            best = accuracy
            fabric.save("best.ckpt", {"model": model, "optimizer": optimizer, "epoch": epoch})


if __name__ == "__main__":
    main()
