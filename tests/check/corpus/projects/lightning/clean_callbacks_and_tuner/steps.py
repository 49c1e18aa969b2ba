"""Callbacks with every hook of Lightning 2's that people take for a mistake."""

import lightning as L
import torch
from lightning.pytorch.callbacks import Callback
from lightning.pytorch.tuner import Tuner
from torch import nn
from torch.utils.data import DataLoader
from torchvision import transforms
from torchvision.datasets import CIFAR10
from torchvision.models import resnet18


class GradientNorm(Callback):
    def on_before_optimizer_step(self, trainer, pl_module, optimizer):
        norms = [p.grad.norm() for p in pl_module.parameters() if p.grad is not None]
        pl_module.log("gradient_norm", torch.stack(norms).norm())


class Unfreeze(Callback):
    def __init__(self, epoch):
        self.epoch = epoch

    def on_train_epoch_start(self, trainer, pl_module):
        if trainer.current_epoch == self.epoch:
            pl_module.net.requires_grad_(True)


class Classifier(L.LightningModule):
    def __init__(self, lr=1e-3, batch_size=128):
        super().__init__()
        self.save_hyperparameters()
        self.net = resnet18(weights="DEFAULT")
        self.net.requires_grad_(False)
        self.net.fc = nn.Linear(512, 10)
        self.scores = []

    def on_train_start(self):
        self.logger.log_hyperparams(self.hparams)

    def training_step(self, batch, batch_idx):
        images, labels = batch
        return nn.functional.cross_entropy(self.net(images), labels)

    def on_validation_epoch_start(self):
        self.scores.clear()

    def validation_step(self, batch, batch_idx):
        images, labels = batch
        self.scores.append((self.net(images).argmax(1) == labels).float())

    def on_validation_epoch_end(self):
        self.log("val_accuracy", torch.cat(self.scores).mean(), prog_bar=True, sync_dist=True)

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=self.hparams.lr)

    def lr_scheduler_step(self, scheduler, metric):
        scheduler.step()

    def loader(self, train):
        data = CIFAR10("data", train=train, download=True, transform=transforms.ToTensor())
        return DataLoader(data, self.hparams.batch_size, shuffle=train, num_workers=6)

    def train_dataloader(self):
        return self.loader(True)

    def val_dataloader(self):
        return self.loader(False)


if __name__ == "__main__":
    model = Classifier()
    trainer = L.Trainer(
        accelerator="gpu", devices=1, max_epochs=12, benchmark=True, callbacks=[GradientNorm(), Unfreeze(3)]
    )
    Tuner(trainer).lr_find(model, attr_name="lr")
    trainer.fit(model)
