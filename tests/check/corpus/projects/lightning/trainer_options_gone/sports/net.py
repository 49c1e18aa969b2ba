import pytorch_lightning as pl
import torch
from torchvision.models.video import r2plus1d_18


class SportsNet(pl.LightningModule):
    def __init__(self, classes=101, lr=0.01, batch_size=8):
        super().__init__()
        self.save_hyperparameters()
        self.net = r2plus1d_18(num_classes=classes)

    def forward(self, clips):
        return self.net(clips)

    def training_step(self, batch, batch_idx):
        clips, labels = batch
        loss = torch.nn.functional.cross_entropy(self(clips), labels)
        self.log("train_loss", loss, batch_size=self.hparams.batch_size)
        return loss

    def validation_step(self, batch, batch_idx):
        clips, labels = batch
        accuracy = (self(clips).argmax(1) == labels).float().mean()
        self.log("val_accuracy", accuracy, batch_size=self.hparams.batch_size)

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), self.hparams.lr, momentum=0.9)
