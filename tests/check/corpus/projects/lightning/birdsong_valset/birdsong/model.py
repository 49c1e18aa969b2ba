import lightning as L
import torch
from torch import nn
from torchmetrics.classification import MulticlassF1Score


class BirdsongModel(L.LightningModule):
    def __init__(self, species=120, lr=3e-4):
        super().__init__()
        self.save_hyperparameters()
        self.body = nn.Sequential(
            nn.Conv2d(1, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(32, 64, 3, padding=1), nn.BatchNorm2d(64), nn.ReLU(), nn.AdaptiveAvgPool2d(1),
            nn.Flatten(), nn.Linear(64, species),
        )
        self.f1 = MulticlassF1Score(species)
        self.loss = nn.CrossEntropyLoss()

    def forward(self, clips):
        return self.body(clips)

    def training_step(self, batch, batch_idx):
        clips, labels = batch
        loss = self.loss(self(clips), labels)
        self.log("train_loss", loss, prog_bar=True)
        return loss

    def validation_step(self, batch, batch_idx):
        clips, labels = batch
        self.f1(self(clips), labels)
        self.log("val_f1", self.f1, on_epoch=True, prog_bar=True)

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=self.hparams.lr)
