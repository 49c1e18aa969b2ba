#!/usr/bin/env python
"""Fine-tune the head of a pretrained ViT on a folder of images."""
import argparse
import logging

import torch
from torch import nn
from torch.utils.data import DataLoader, random_split
from torchvision.datasets import ImageFolder
from torchvision.models import ViT_B_16_Weights, vit_b_16

log = logging.getLogger("finetune")


def build_model(classes):
    weights = ViT_B_16_Weights.IMAGENET1K_V1
    model = vit_b_16(weights=weights)
    for param in model.parameters():
        param.requires_grad = False
    model.heads.head = nn.Linear(model.heads.head.in_features, classes)
    return model, weights.transforms()


def pick_device():
    if torch.cuda.is_available():
        return torch.device("cuda")
    return torch.device("cpu")


def run_epoch(model, loader, device, optimizer=None):
    train = optimizer is not None
    model.train(train)
    loss_sum, hits, n = 0.0, 0, 0
    with torch.set_grad_enabled(train):
        for x, y in loader:
            x, y = x.to(device), y.to(device)
            logits = model(x)
            loss = nn.functional.cross_entropy(y, logits)
            if train:
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            loss_sum += loss.item() * len(y)
            hits += (logits.argmax(-1) == y).sum().item()
            n += len(y)
    return loss_sum / n, hits / n


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--images", required=True)
    parser.add_argument("--epochs", type=int, default=8)
    parser.add_argument("--lr", type=float, default=1e-3)
    args = parser.parse_args()
    logging.basicConfig(level=logging.INFO)

    dataset = ImageFolder(args.images)
    model, transform = build_model(len(dataset.classes))
    dataset.transform = transform
    n_val = len(dataset) // 10
    train, val = random_split(dataset, [len(dataset) - n_val, n_val], torch.Generator().manual_seed(0))
    device = pick_device()
    model.to(device)
    optimizer = torch.optim.Adam(model.heads.parameters(), lr=args.lr)
    loader = DataLoader(train, 64, shuffle=True, num_workers=4)
    val_loader = DataLoader(val, 64, num_workers=4)
    for epoch in range(args.epochs):
        log.info("epoch %d train %s", epoch, run_epoch(model, loader, device, optimizer))
        log.info("epoch %d val %s", epoch, run_epoch(model, val_loader, device))
    torch.save({"state": model.state_dict(), "classes": dataset.classes}, "vit.pt")


if __name__ == "__main__":
    main()
