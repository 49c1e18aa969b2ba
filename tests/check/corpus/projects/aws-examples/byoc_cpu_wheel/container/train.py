#!/usr/bin/env python
import json
import sys
import traceback
from pathlib import Path

import nibabel
import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

prefix = Path("/opt/ml")


class Volumes(Dataset):
    def __init__(self, root):
        self.images = sorted(root.glob("*_ct.nii.gz"))

    def __len__(self):
        return len(self.images)

    def __getitem__(self, i):
        ct = nibabel.load(self.images[i]).get_fdata(dtype=np.float32)
        seg = nibabel.load(str(self.images[i]).replace("_ct", "_seg")).get_fdata(dtype=np.float32)
        return torch.from_numpy(ct)[None] / 1000, torch.from_numpy(seg)[None]


class UNet3D(nn.Module):
    def __init__(self, width=16):
        super().__init__()
        self.net = nn.Sequential(
            nn.Conv3d(1, width, 3, padding=1), nn.InstanceNorm3d(width), nn.LeakyReLU(),
            nn.Conv3d(width, width, 3, padding=1), nn.InstanceNorm3d(width), nn.LeakyReLU(), nn.Conv3d(width, 1, 1),
        )

    def forward(self, x):
        return self.net(x)


def train():
    with open(prefix / "input/config/hyperparameters.json") as f:
        params = json.load(f)
    volumes = Volumes(prefix / "input/data/training")
    loader = DataLoader(volumes, batch_size=int(params["batch_size"]), shuffle=True, num_workers=7, pin_memory=True)
    device = torch.device("cuda")
    model = UNet3D().to(device)
    optimizer = torch.optim.Adam(model.parameters(), 1e-3)
    for epoch in range(int(params["epochs"])):
        for ct, seg in loader:
            loss = nn.functional.binary_cross_entropy_with_logits(model(ct.to(device)), seg.to(device))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        print(f"epoch {epoch} loss {loss.item():.4f}")
    torch.save(model.state_dict(), prefix / "model" / "unet.pt")


if __name__ == "__main__":
    try:
        train()
    except Exception as error:
        (prefix / "output" / "failure").write_text(f"{error}\n{traceback.format_exc()}")
        sys.exit(255)
