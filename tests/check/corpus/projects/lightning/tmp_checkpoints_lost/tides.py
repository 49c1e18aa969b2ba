import os

import lightning as L
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Tides(L.LightningModule):
    def __init__(self, window=336, horizon=48):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(window, 512), nn.GELU(), nn.Linear(512, horizon))

    def forward(self, window):
        return self.net(window)

    def training_step(self, batch, batch_idx):
        window, future = batch
        loss = nn.functional.l1_loss(self(window), future)
        self.log("train_loss", loss)
        return loss

    def validation_step(self, batch, batch_idx):
        window, future = batch
        self.log("val_loss", nn.functional.l1_loss(self(window), future))

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=1e-3)


class Gauges(L.LightningDataModule):
    def __init__(self, folder):
        super().__init__()
        self.folder = folder

    def rows(self, part):
        stored = torch.load(os.path.join(self.folder, f"{part}.pt"), map_location="cpu", weights_only=True)
        return TensorDataset(stored["window"], stored["future"])

    def train_dataloader(self):
        return DataLoader(self.rows("train"), batch_size=256, shuffle=True, num_workers=3)

    def val_dataloader(self):
        return DataLoader(self.rows("val"), batch_size=512, num_workers=3)
