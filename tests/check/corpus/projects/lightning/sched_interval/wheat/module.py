import lightning as L
import torch
from torch import nn
from torchvision.models import resnet34


class WheatHeads(L.LightningModule):
    """Counts the heads of wheat in a picture of a field."""

    def __init__(self, lr=1e-3, max_epochs=50):
        super().__init__()
        self.save_hyperparameters()
        self.net = resnet34(weights="DEFAULT")
        self.net.fc = nn.Linear(512, 1)
        self.val_losses = []

    def forward(self, images):
        return self.net(images).squeeze(1)

    def training_step(self, batch, batch_idx):
        images, counts = batch
        loss = nn.functional.smooth_l1_loss(self(images), counts)
        self.val_losses.append(loss)
        self.log("train_loss", loss)
        return loss

    def validation_step(self, batch, batch_idx):
        images, counts = batch
        self.log("val_mae", (self(images) - counts).abs().mean(), prog_bar=True, sync_dist=True)

    def configure_optimizers(self):
        optimizer = torch.optim.AdamW(self.parameters(), lr=self.hparams.lr)
        scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=self.hparams.max_epochs)
        return {
            "optimizer": optimizer,
            "lr_scheduler": {
                "scheduler": scheduler,
                "interval": "step",
            },
        }
