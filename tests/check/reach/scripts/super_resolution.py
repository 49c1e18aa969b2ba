"""Upscales images and keeps a checkpoint of every epoch."""

from __future__ import print_function

import argparse
from math import log10

import torch
import torch.nn as nn
import torch.optim as optim
from torch.utils.data import DataLoader
from torchvision.datasets import FakeData
from torchvision.transforms import ToTensor

parser = argparse.ArgumentParser(description="super resolution")
parser.add_argument("--upscale_factor", type=int, default=2)
parser.add_argument("--nEpochs", type=int, default=2)
parser.add_argument("--cuda", action="store_true", help="use cuda?")
parser.add_argument("--threads", type=int, default=4)
opt = parser.parse_args()
if opt.cuda and not torch.cuda.is_available():
    raise Exception("No GPU found, please run without --cuda")
device = torch.device("cuda" if opt.cuda else "cpu")
data = FakeData(100, (3, 64, 64), transform=ToTensor())
loader = DataLoader(dataset=data, num_workers=opt.threads, batch_size=64, shuffle=True)
model = nn.Sequential(nn.Conv2d(3, 12, 3, padding=1), nn.PixelShuffle(opt.upscale_factor)).to(device)
criterion = nn.MSELoss()
optimizer = optim.Adam(model.parameters(), lr=0.01)


def train(epoch):
    total = 0
    for small, _ in loader:
        small = small.to(device)
        big = nn.functional.interpolate(small, scale_factor=opt.upscale_factor)
        optimizer.zero_grad()
        loss = criterion(model(small), big)
        total += loss.item()
        loss.backward()
        optimizer.step()
    print(epoch, 10 * log10(1 / (total + 1e-9)))


def checkpoint(epoch):
    torch.save(model, "model_epoch_{}.pth".format(epoch))


for epoch in range(1, opt.nEpochs + 1):
    train(epoch)
    checkpoint(epoch)
