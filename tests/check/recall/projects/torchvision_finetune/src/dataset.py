"""Loaders for a folder with `train/` and `test/`, each with a folder per class."""

from pathlib import Path

import torch
from torch.utils.data import DataLoader, DistributedSampler
from torchvision.datasets import ImageFolder
from torchvision.transforms import v2

MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


def transforms(augment):
    first = (
        [v2.RandomResizedCrop(224), v2.RandomHorizontalFlip()]
        if augment
        else [v2.Resize(256), v2.CenterCrop(224)]
    )
    return v2.Compose([v2.ToImage(), *first, v2.ToDtype(torch.float32, scale=True), v2.Normalize(MEAN, STD)])


def build_loaders(folder, batch_size, workers):
    training = ImageFolder(Path(folder, "train"), transforms(augment=True))
    testing = ImageFolder(Path(folder, "test"), transforms(augment=False))
    sampler = DistributedSampler(training)
    train_loader = DataLoader(
        training,
        batch_size=batch_size,
        sampler=sampler,
        num_workers=workers,
        pin_memory=True,
        persistent_workers=True,
        drop_last=True,
    )
    test_loader = DataLoader(
        testing,
        batch_size=batch_size,
        sampler=DistributedSampler(testing, shuffle=False),
        num_workers=workers,
        pin_memory=True,
    )
    return train_loader, sampler, test_loader
