import argparse
from pathlib import Path

import numpy as np
import torch
from accelerate import Accelerator
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Despeckle(nn.Module):
    """Removes the speckle of radar images: predicts the noise, as a residual."""

    def __init__(self, width=64, depth=12):
        super().__init__()
        layers = [nn.Conv2d(1, width, 3, padding=1), nn.ReLU()]
        for _ in range(depth):
            layers += [nn.Conv2d(width, width, 3, padding=1), nn.BatchNorm2d(width), nn.ReLU()]
        self.net = nn.Sequential(*layers, nn.Conv2d(width, 1, 3, padding=1))

    def forward(self, image):
        return image - self.net(image)


class Pairs(Dataset):
    def __init__(self, folder):
        self.paths = sorted(Path(folder).glob("*.npz"))

    def __len__(self):
        return len(self.paths)

    def __getitem__(self, index):
        stored = np.load(self.paths[index])
        return tuple(torch.from_numpy(stored[name]).float().unsqueeze(0) for name in ("noisy", "clean"))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", required=True)
    args = parser.parse_args()
    accelerator = Accelerator()
    model = Despeckle()
    loader = DataLoader(Pairs(args.data), batch_size=16, shuffle=True, num_workers=7)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
    model.train()
    for epoch in range(30):
        for noisy, clean in loader:
            loss = nn.functional.l1_loss(model(noisy), clean)
            accelerator.backward(loss)
            optimizer.step()
            optimizer.zero_grad()
        accelerator.print(epoch, loss.item())
        accelerator.save_model(model, "despeckle")


if __name__ == "__main__":
    main()
