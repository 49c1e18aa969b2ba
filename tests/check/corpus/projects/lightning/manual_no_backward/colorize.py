import lightning as L
import torch
import torch.nn.functional as F
from lightning.pytorch.callbacks import ModelCheckpoint
from torch import nn
from torch.utils.data import DataLoader
from torchvision import datasets, transforms


class Colorizer(L.LightningModule):
    def __init__(self, width=48, accumulate=4):
        super().__init__()
        self.automatic_optimization = False
        self.accumulate = accumulate
        self.net = nn.Sequential(
            nn.Conv2d(1, width, 3, padding=1), nn.GroupNorm(8, width), nn.SiLU(),
            nn.Conv2d(width, width, 3, padding=1), nn.GroupNorm(8, width), nn.SiLU(),
            nn.Conv2d(width, 3, 1), nn.Sigmoid(),
        )

    def forward(self, grey):
        return self.net(grey)

    def training_step(self, batch, batch_idx):
        colour, _ = batch
        grey = colour.mean(dim=1, keepdim=True)
        loss = F.l1_loss(self(grey), colour) / self.accumulate
        loss.backward
        if (batch_idx + 1) % self.accumulate == 0:
            optimizer = self.optimizers()
            optimizer.step()
            optimizer.zero_grad()
        self.log("train_l1", loss * self.accumulate)

    def validation_step(self, batch, batch_idx):
        colour, _ = batch
        grey = colour.mean(dim=1, keepdim=True)
        self.log("val_l1", F.l1_loss(self(grey), colour))

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=1e-3)


def loader(split):
    photos = datasets.STL10("data", split=split, download=True, transform=transforms.ToTensor())
    return DataLoader(photos, batch_size=64, shuffle=split == "unlabeled", num_workers=6)


if __name__ == "__main__":
    trainer = L.Trainer(
        accelerator="gpu",
        devices=8,
        strategy="ddp",
        max_epochs=15,
        callbacks=[ModelCheckpoint("runs/colorize", monitor="val_l1", mode="min")],
    )
    trainer.fit(Colorizer(), loader("unlabeled"), loader("test"))
