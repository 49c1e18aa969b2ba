import argparse

import torch
from torch import nn
from torch.utils.data import DataLoader

from pose.data import Keypoints


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", required=True)
    parser.add_argument("--epochs", type=int, default=10)
    args = parser.parse_args()
    device = torch.device("cuda")
    loader = DataLoader(Keypoints(args.data), batch_size=48, shuffle=True, num_workers=8, pin_memory=True)
    model = nn.Sequential(
        nn.Conv2d(3, 64, 7, 2, 3), nn.ReLU(), nn.Conv2d(64, 128, 3, 2, 1), nn.ReLU(), nn.Conv2d(128, 17, 1)
    ).to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    for epoch in range(args.epochs):
        for images, heatmaps in loader:
            images = images.to(device, non_blocking=True)
            heatmaps = heatmaps.to(device, non_blocking=True)
            loss = nn.functional.mse_loss(model(images), heatmaps)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        print(epoch, loss.item(), flush=True)
        torch.save({"epoch": epoch, "model": model.state_dict()}, "pose.pt")


if __name__ == "__main__":
    main()
