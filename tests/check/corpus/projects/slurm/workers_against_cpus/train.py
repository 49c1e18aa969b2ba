import argparse

import torch
from tiles import Tiles
from torch import nn
from torch.utils.data import DataLoader

parser = argparse.ArgumentParser()
parser.add_argument("--tiles", required=True)
args = parser.parse_args()
device = torch.device("cuda")
loader = DataLoader(Tiles(args.tiles), batch_size=32, shuffle=True, num_workers=24, pin_memory=True)
net = nn.Sequential(
    nn.Conv2d(6, 64, 3, padding=1), nn.BatchNorm2d(64), nn.ReLU(), nn.Conv2d(64, 64, 3, padding=1), nn.ReLU(),
    nn.Conv2d(64, 1, 1),
).to(device)
optimizer = torch.optim.Adam(net.parameters(), lr=1e-3)
criterion = nn.BCEWithLogitsLoss()
for epoch in range(25):
    net.train()
    for images, snow in loader:
        images, snow = images.to(device, non_blocking=True), snow.to(device, non_blocking=True)
        loss = criterion(net(images).squeeze(1), snow)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(epoch, loss.item(), flush=True)
torch.save(net.state_dict(), "snow.pt")
