"""Train a small U-Net on satellite tiles with Lightning."""

import argparse
import os

import lightning as L
import torch
from lightning.pytorch.callbacks import EarlyStopping, LearningRateMonitor, ModelCheckpoint
from tiles import TileDataModule
from torch import nn


def block(inputs, outputs):
    return nn.Sequential(
        nn.Conv2d(inputs, outputs, 3, padding=1, bias=False),
        nn.BatchNorm2d(outputs),
        nn.ReLU(inplace=True),
    )


class UNet(nn.Module):
    def __init__(self, classes, width=32):
        super().__init__()
        self.down1 = block(3, width)
        self.down2 = block(width, 2 * width)
        self.up = nn.ConvTranspose2d(2 * width, width, 2, stride=2)
        self.merge = block(2 * width, width)
        self.head = nn.Conv2d(width, classes, 1)
        self.pool = nn.MaxPool2d(2)

    def forward(self, tiles):
        skip = self.down1(tiles)
        deep = self.down2(self.pool(skip))
        return self.head(self.merge(torch.cat([skip, self.up(deep)], dim=1)))


class Segmentation(L.LightningModule):
    def __init__(self, classes, learning_rate):
        super().__init__()
        self.save_hyperparameters()
        self.network = UNet(classes)
        self.loss = nn.CrossEntropyLoss(ignore_index=255)

    def training_step(self, batch, batch_index):
        tiles, masks = batch
        loss = self.loss(self.network(tiles), masks)
        self.log("train_loss", loss, prog_bar=True)
        return loss

    def validation_step(self, batch, batch_index):
        tiles, masks = batch
        scores = self.network(tiles)
        self.log("val_loss", self.loss(scores, masks), sync_dist=True)
        self.log("val_accuracy", (scores.argmax(1) == masks).float().mean(), sync_dist=True)

    def configure_optimizers(self):
        optimizer = torch.optim.AdamW(self.parameters(), lr=self.hparams.learning_rate)
        scheduler = torch.optim.lr_scheduler.OneCycleLR(
            optimizer, max_lr=self.hparams.learning_rate, total_steps=self.trainer.estimated_stepping_batches
        )
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": scheduler, "interval": "step"}}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=40)
    parser.add_argument("--batch-size", type=int, default=16)
    parser.add_argument("--learning-rate", type=float, default=3e-4)
    parser.add_argument("--classes", type=int, default=7)
    parser.add_argument("--tiles", default=os.environ["SM_CHANNEL_TILES"])
    parser.add_argument("--model-dir", default=os.environ["SM_MODEL_DIR"])
    args = parser.parse_args()

    L.seed_everything(7, workers=True)
    torch.set_float32_matmul_precision("high")
    data = TileDataModule(args.tiles, args.batch_size)
    model = Segmentation(args.classes, args.learning_rate)
    best = ModelCheckpoint("/opt/ml/checkpoints", monitor="val_loss", save_last=True)
    trainer = L.Trainer(
        max_epochs=args.epochs,
        accelerator="gpu",
        devices=4,
        strategy="ddp",
        precision="16-mixed",
        callbacks=[best, EarlyStopping("val_loss", patience=5), LearningRateMonitor()],
        log_every_n_steps=20,
        default_root_dir="/opt/ml/output/data",
    )
    last = "/opt/ml/checkpoints/last.ckpt"
    trainer.fit(model, data, ckpt_path=last if os.path.exists(last) else None)
    if trainer.is_global_zero:
        torch.save(model.network.state_dict(), os.path.join(args.model_dir, "unet.pt"))


if __name__ == "__main__":
    main()
