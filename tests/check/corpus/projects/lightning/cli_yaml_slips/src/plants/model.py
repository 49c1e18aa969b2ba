import lightning as L
import torch
from torchvision.models import resnet50


class PlantModel(L.LightningModule):
    def __init__(self, classes: int = 1081, lr: float = 1e-3):
        super().__init__()
        self.save_hyperparameters()
        self.net = resnet50(num_classes=classes)

    def training_step(self, batch, batch_idx):
        images, labels = batch
        loss = torch.nn.functional.cross_entropy(self.net(images), labels)
        self.log("train_loss", loss)
        return loss

    def validation_step(self, batch, batch_idx):
        images, labels = batch
        accuracy = (self.net(images).argmax(1) == labels).float().mean()
        self.log("val_accuracy", accuracy, prog_bar=True)

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=self.hparams.lr)
