"""Gradient accumulation with Accelerate: the loss is not divided and no tensor is moved, as accumulate() does it."""

import argparse
import math

import timm
import torch
from accelerate import Accelerator
from accelerate.utils import set_seed
from data import make_loaders
from torch import nn


def evaluate(accelerator, model, loader):
    model.eval()
    right, total = 0, 0
    for images, labels in loader:
        with torch.inference_mode():
            found = model(images).argmax(dim=-1)
        found, labels = accelerator.gather_for_metrics((found, labels))
        right += int((found == labels).sum())
        total += labels.shape[0]
    model.train()
    return right / total


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--root", required=True)
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--lr", type=float, default=5e-4)
    args = parser.parse_args()
    accelerator = Accelerator(mixed_precision="bf16", gradient_accumulation_steps=4)
    set_seed(17)
    train, val = make_loaders(args.root, 224, 32)
    model = timm.create_model("vit_small_patch16_224", pretrained=True, num_classes=len(train.dataset.classes))
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.lr, weight_decay=0.05)
    steps = math.ceil(len(train) / 4) * args.epochs
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=steps)
    model, optimizer, train, val, scheduler = accelerator.prepare(model, optimizer, train, val, scheduler)
    loss_function = nn.CrossEntropyLoss()
    best = 0.0
    for epoch in range(args.epochs):
        model.train()
        for images, labels in train:
            with accelerator.accumulate(model):
                loss = loss_function(model(images), labels)
                accelerator.backward(loss)
                if accelerator.sync_gradients:
                    accelerator.clip_grad_norm_(model.parameters(), 1.0)
                optimizer.step()
                scheduler.step()
                optimizer.zero_grad()
        accuracy = evaluate(accelerator, model, val)
        accelerator.print(f"{epoch}: {accuracy:.4f}")
        if accuracy > best:
            best = accuracy
            accelerator.save_model(model, "best")


if __name__ == "__main__":
    main()
