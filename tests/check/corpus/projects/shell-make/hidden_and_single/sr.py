from pathlib import Path

import torch
from torch import nn
from torch.utils.data import Dataset
from torchvision.io import read_image
from torchvision.transforms.v2.functional import resize


class SuperResolution(nn.Sequential):
    def __init__(self, width=64, scale=2):
        super().__init__(
            nn.Conv2d(3, width, 5, padding=2), nn.ReLU(), nn.Conv2d(width, width, 3, padding=1), nn.ReLU(),
            nn.Conv2d(width, 3 * scale**2, 3, padding=1), nn.PixelShuffle(scale),
        )


class Photos(Dataset):
    def __init__(self, folder):
        self.paths = sorted(Path(folder).glob("*.png"))

    def __len__(self):
        return len(self.paths)

    def __getitem__(self, index):
        large = resize(read_image(str(self.paths[index])).to(torch.float32) / 255, [256, 256])
        return resize(large, [128, 128], antialias=True), large
