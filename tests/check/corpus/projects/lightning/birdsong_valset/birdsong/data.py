"""Spectrograms of bird calls, one .npy file a clip."""

from pathlib import Path

import lightning as L
import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset


class Clips(Dataset):
    def __init__(self, folder):
        self.files = sorted(Path(folder).rglob("*.npy"))
        self.species = sorted({path.parent.name for path in self.files})

    def __len__(self):
        return len(self.files)

    def __getitem__(self, index):
        path = self.files[index]
        clip = torch.from_numpy(np.load(path)).float().unsqueeze(0)
        return clip, self.species.index(path.parent.name)


class BirdsongData(L.LightningDataModule):
    def __init__(self, root, batch_size=64):
        super().__init__()
        self.root = Path(root)
        self.batch_size = batch_size

    def setup(self, stage=None):
        self.train_set = Clips(self.root / "train")
        self.val_set = Clips(self.root / "val")

    def train_dataloader(self):
        return DataLoader(
            self.train_set, batch_size=self.batch_size, shuffle=True, num_workers=6, pin_memory=True
        )

    def val_dataloader(self):
        return DataLoader(self.train_set, batch_size=self.batch_size, num_workers=6, pin_memory=True)
