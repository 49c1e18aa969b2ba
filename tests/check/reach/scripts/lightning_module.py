"""A LightningModule and a Trainer."""

from argparse import ArgumentParser

import lightning as L
import torch
from lightning.pytorch.callbacks import ModelCheckpoint
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, random_split
from torchvision import transforms
from torchvision.datasets import MNIST


class LitAutoEncoder(L.LightningModule):
    def __init__(self, lr=1e-3):
        super().__init__()
        self.save_hyperparameters()
        self.encoder = nn.Linear(28 * 28, 3)
        self.decoder = nn.Linear(3, 28 * 28)

    def forward(self, x):
        return self.encoder(x)

    def training_step(self, batch, batch_idx):
        x = batch[0].view(batch[0].size(0), -1)
        loss = F.mse_loss(self.decoder(self.encoder(x)), x)
        self.log("train_loss", loss)
        return loss

    def validation_step(self, batch, batch_idx):
        x = batch[0].view(batch[0].size(0), -1)
        self.log("val_loss", F.mse_loss(self.decoder(self.encoder(x)), x))

    def on_train_epoch_end(self):
        weights = self.encoder.weight.detach().cpu().numpy()
        self.logger.experiment.add_histogram("encoder", weights)

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=self.hparams.lr)


def cli_main():
    L.seed_everything(1234)
    parser = ArgumentParser()
    parser.add_argument("--batch_size", default=32, type=int)
    parser.add_argument("--devices", default="auto")
    args = parser.parse_args()
    dataset = MNIST("", train=True, download=True, transform=transforms.ToTensor())
    train, val = random_split(dataset, [55000, 5000])
    model = LitAutoEncoder()
    trainer = L.Trainer(devices=args.devices, max_epochs=10, callbacks=[ModelCheckpoint(monitor="val_loss")])
    trainer.fit(
        model,
        DataLoader(train, batch_size=args.batch_size, num_workers=4),
        DataLoader(val, batch_size=args.batch_size, num_workers=4),
    )


if __name__ == "__main__":
    cli_main()
