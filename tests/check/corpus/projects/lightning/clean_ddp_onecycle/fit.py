"""Classify 12-lead ECGs. OneCycleLR is stepped per batch, as it has to be."""

import argparse
import os

import lightning as L
import torch
from lightning.pytorch.callbacks import LearningRateMonitor, ModelCheckpoint
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
from torchmetrics.classification import MultilabelAUROC


class ECGNet(L.LightningModule):
    def __init__(self, classes: int = 9, lr: float = 2e-3):
        super().__init__()
        self.save_hyperparameters()
        self.net = nn.Sequential(
            nn.Conv1d(12, 64, 15, stride=2), nn.BatchNorm1d(64), nn.ReLU(),
            nn.Conv1d(64, 128, 9, stride=2), nn.BatchNorm1d(128), nn.ReLU(),
            nn.AdaptiveAvgPool1d(1), nn.Flatten(), nn.Dropout(0.3), nn.Linear(128, classes),
        )
        self.loss = nn.BCEWithLogitsLoss()
        self.auroc = MultilabelAUROC(classes)

    def forward(self, leads):
        return self.net(leads)

    def training_step(self, batch, batch_idx):
        leads, labels = batch
        loss = self.loss(self(leads), labels)
        self.log("train_loss", loss)
        return loss

    def validation_step(self, batch, batch_idx):
        leads, labels = batch
        logits = self(leads)
        self.auroc.update(logits.sigmoid(), labels.int())
        self.log("val_loss", self.loss(logits, labels), sync_dist=True)
        self.log("val_auroc", self.auroc)

    def configure_optimizers(self):
        optimizer = torch.optim.AdamW(self.parameters(), lr=self.hparams.lr)
        scheduler = torch.optim.lr_scheduler.OneCycleLR(
            optimizer, max_lr=self.hparams.lr, total_steps=int(self.trainer.estimated_stepping_batches)
        )
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": scheduler, "interval": "step"}}


def dataset(folder, split):
    stored = torch.load(os.path.join(folder, f"{split}.pt"), map_location="cpu", weights_only=True)
    return TensorDataset(stored["leads"], stored["labels"].float())


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--max-epochs", type=int, default=10)
    parser.add_argument("--data", default=os.environ.get("SM_CHANNEL_ECG"))
    args = parser.parse_args()
    train = DataLoader(dataset(args.data, "train"), batch_size=64, shuffle=True, num_workers=8, pin_memory=True)
    val = DataLoader(dataset(args.data, "val"), batch_size=128, num_workers=8, pin_memory=True)
    checkpoints = ModelCheckpoint(
        dirpath=os.environ["SM_MODEL_DIR"], monitor="val_auroc", mode="max", filename="best"
    )
    trainer = L.Trainer(
        accelerator="gpu",
        devices=4,
        strategy="ddp",
        max_epochs=args.max_epochs,
        precision="16-mixed",
        callbacks=[checkpoints, LearningRateMonitor("step")],
        logger=False if os.environ.get("NO_LOGS") else True,
        gradient_clip_val=1.0,
    )
    trainer.fit(ECGNet(), train, val)


if __name__ == "__main__":
    main()
