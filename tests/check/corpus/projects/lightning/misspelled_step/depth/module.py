import lightning as L
import torch
from torch import nn


def scale_invariant(prediction, target):
    difference = torch.log(prediction) - torch.log(target)
    return (difference**2).mean() - 0.5 * difference.mean() ** 2


class DepthNet(L.LightningModule):
    def __init__(self, channels=64):
        super().__init__()
        self.encoder = nn.Sequential(
            nn.Conv2d(3, channels, 3, 2, 1), nn.ReLU(), nn.Conv2d(channels, channels, 3, 2, 1), nn.ReLU()
        )
        self.decoder = nn.Sequential(
            nn.Upsample(scale_factor=4), nn.Conv2d(channels, 1, 3, padding=1), nn.Softplus()
        )

    def forward(self, image):
        return self.decoder(self.encoder(image)) + 1e-3

    def training_step(self, batch, batch_idx):
        image, depth = batch
        depth = depth.cuda()
        loss = scale_invariant(self(image), depth)
        self.log("train_si", loss)
        return loss

    def validation_steps(self, batch, batch_idx):
        image, depth = batch
        self.log("val_si", scale_invariant(self(image), depth), sync_dist=True)

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), 1e-4)
