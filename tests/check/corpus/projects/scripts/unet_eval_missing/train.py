import argparse

import torch
from torch import nn
from torch.utils.data import DataLoader

from dataset import Scans
from unet import UNet


def dice(net, loader, device):
    inter = union = 0.0
    for image, mask in loader:
        image, mask = image.to(device), mask.to(device)
        pred = net(image).sigmoid() > 0.5
        inter += (pred * mask).sum().item()
        union += pred.sum().item() + mask.sum().item()
    return 2 * inter / max(union, 1.0)


def fit(args):
    device = torch.device("cuda")
    train_set, val_set = Scans(args.data, "train"), Scans(args.data, "val")
    train_dl = DataLoader(train_set, args.batch_size, shuffle=True, num_workers=6, pin_memory=True, drop_last=True)
    val_dl = DataLoader(val_set, args.batch_size, num_workers=6, pin_memory=True)
    net = UNet().to(device)
    optimizer = torch.optim.AdamW(net.parameters(), lr=args.lr)
    scaler = torch.amp.GradScaler("cuda")
    criterion = nn.BCEWithLogitsLoss()
    best = 0.0
    print(f"{len(train_set)} scans for training, {len(val_set)} for validation")
    for epoch in range(args.epochs):
        for image, mask in train_dl:
            image, mask = image.to(device, non_blocking=True), mask.to(device, non_blocking=True)
            optimizer.zero_grad(set_to_none=True)
            with torch.autocast("cuda", dtype=torch.float16):
                loss = criterion(net(image), mask)
            scaler.scale(loss).backward()
            scaler.unscale_(optimizer)
            nn.utils.clip_grad_norm_(net.parameters(), 1.0)
            scaler.step(optimizer)
            scaler.update()
        score = dice(net, val_dl, device)
        print(f"epoch {epoch}: dice {score:.4f}")
        if score > best:
            best = score
            torch.save(net.state_dict(), "unet.pt")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("data")
    parser.add_argument("--epochs", type=int, default=50)
    parser.add_argument("--batch-size", type=int, default=16)
    parser.add_argument("--lr", type=float, default=3e-4)
    fit(parser.parse_args())
