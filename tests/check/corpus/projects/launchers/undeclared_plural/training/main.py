import argparse
import os

import torch
from torch import nn
from torch.utils.data import DataLoader

from data import Clips


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--training", default=os.environ["SM_CHANNEL_TRAINING"])
    args = parser.parse_args()
    device = torch.device("cuda")
    loader = DataLoader(Clips(args.training), batch_size=256, shuffle=True, num_workers=8, pin_memory=True)
    model = nn.Sequential(
        nn.Conv1d(1, 64, 80, 4), nn.BatchNorm1d(64), nn.ReLU(), nn.AdaptiveAvgPool1d(1), nn.Flatten(), nn.Linear(64, 35)
    ).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    for epoch in range(args.epochs):
        for clip, label in loader:
            clip, label = clip.to(device), label.to(device)
            loss = nn.functional.cross_entropy(model(clip), label)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        print(f"epoch={epoch} loss={loss.item():.4f}")
    torch.save(model.state_dict(), os.path.join(os.environ["SM_MODEL_DIR"], "model.pt"))


if __name__ == "__main__":
    main()
