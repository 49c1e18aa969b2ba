import argparse
import os
from pathlib import Path

import torch
from torch import nn
from torch.utils.data import DataLoader

from fields import Fields

CHECKPOINTS = Path("/tmp/checkpoints")


def build():
    return nn.Sequential(
        nn.Conv2d(4, 64, 5, padding=2), nn.ReLU(), nn.Conv2d(64, 64, 3, padding=1), nn.ReLU(),
        nn.Conv2d(64, 16, 3, padding=1), nn.PixelShuffle(4),
    )


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=10)
    args = parser.parse_args()
    device = torch.device("cuda:0")
    model = build().to(device)
    opt = torch.optim.Adam(model.parameters(), 2e-4)
    start = 0
    if (CHECKPOINTS / "last.pt").exists():
        state = torch.load(CHECKPOINTS / "last.pt", map_location=device, weights_only=True)
        model.load_state_dict(state["model"])
        opt.load_state_dict(state["opt"])
        start = state["epoch"] + 1
    loader = DataLoader(Fields(os.environ["SM_CHANNEL_TRAIN"]), 32, shuffle=True, num_workers=8, pin_memory=True)
    for epoch in range(start, args.epochs):
        for low, high in loader:
            low, high = low.to(device), high.to(device)
            loss = nn.functional.mse_loss(model(low), high)
            opt.zero_grad()
            loss.backward()
            opt.step()
        CHECKPOINTS.mkdir(exist_ok=True)
        torch.save({"model": model.state_dict(), "opt": opt.state_dict(), "epoch": epoch}, CHECKPOINTS / "last.pt")
        print(f"epoch {epoch} mse {loss.item():.6f}")
    torch.save(model.state_dict(), Path(os.environ["SM_MODEL_DIR"]) / "model.pt")


if __name__ == "__main__":
    main()
