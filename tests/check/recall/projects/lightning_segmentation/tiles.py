"""Satellite tiles and their masks, as NumPy files."""

from pathlib import Path

import lightning as L
import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset


class Tiles(Dataset):
    def __init__(self, folder):
        self.files = sorted(Path(folder).glob("*.npz"))

    def __len__(self):
        return len(self.files)

    def __getitem__(self, index):
        with np.load(self.files[index]) as arrays:
            tile = torch.from_numpy(arrays["tile"]).permute(2, 0, 1).float() / 255
            return tile, torch.from_numpy(arrays["mask"]).long()


class TileDataModule(L.LightningDataModule):
    def __init__(self, folder, batch_size):
        super().__init__()
        self.folder = Path(folder)
        self.batch_size = batch_size

    def setup(self, stage=None):
        self.training = Tiles(self.folder / "train")
        self.validation = Tiles(self.folder / "validation")

    def train_dataloader(self):
        return DataLoader(
            self.training,
            batch_size=self.batch_size,
            shuffle=True,
            num_workers=10,
            pin_memory=True,
            persistent_workers=True,
        )

    def val_dataloader(self):
        return DataLoader(self.validation, batch_size=self.batch_size, num_workers=10, pin_memory=True)
