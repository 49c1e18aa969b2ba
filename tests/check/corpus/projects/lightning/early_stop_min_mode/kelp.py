import lightning as L
import segmentation_models_pytorch as smp
import torch
from lightning.pytorch.callbacks import EarlyStopping, LearningRateMonitor
from scenes import Scenes
from torch.utils.data import DataLoader


class KelpModel(L.LightningModule):
    def __init__(self):
        super().__init__()
        self.net = smp.Unet("resnet34", in_channels=7, classes=1)
        self.loss = smp.losses.DiceLoss("binary")

    def forward(self, images):
        return self.net(images)

    def training_step(self, batch, batch_idx):
        images, masks = batch
        loss = self.loss(self(images), masks)
        self.log("train_loss", loss)
        return loss.item()

    def validation_step(self, batch, batch_idx):
        images, masks = batch
        images = images.to("cuda:0")
        found = self(images) > 0
        iou = (found & (masks > 0)).sum() / (found | (masks > 0)).sum().clamp(min=1)
        self.log("val_iou", iou, sync_dist=True)

    def configure_optimizers(self):
        optimizer = torch.optim.AdamW(self.parameters(), lr=1e-3)
        return [optimizer], [torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.95)]


if __name__ == "__main__":
    train = DataLoader(Scenes("/data/kelp/train"), 16, shuffle=True, num_workers=8, pin_memory=True)
    val = DataLoader(Scenes("/data/kelp/val"), 32, num_workers=8, pin_memory=True)
    trainer = L.Trainer(
        accelerator="gpu",
        devices=2,
        max_epochs=60,
        callbacks=[EarlyStopping("val_iou", patience=4), LearningRateMonitor()],
    )
    trainer.fit(KelpModel(), train, val)
