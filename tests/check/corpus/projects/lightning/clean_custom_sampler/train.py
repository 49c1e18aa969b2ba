"""A sampler of our own under DDP: use_distributed_sampler is off, as the sampler knows its rank."""

import lightning as L
import torch
from buckets import BucketSampler, Sentences, pad
from torch import nn
from torch.utils.data import DataLoader


class LanguageId(L.LightningModule):
    def __init__(self, languages=20, width=128):
        super().__init__()
        self.embed = nn.EmbeddingBag(65_536, width, mode="mean", padding_idx=0)
        self.head = nn.Linear(width, languages)

    def forward(self, ids):
        return self.head(self.embed(ids))

    def training_step(self, batch, batch_idx):
        ids, languages = batch
        loss = nn.functional.cross_entropy(self(ids), languages)
        self.log("train_loss", loss, prog_bar=True)
        return loss

    def configure_optimizers(self):
        optimizer = torch.optim.AdamW(self.parameters(), lr=2e-3)
        scheduler = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.9)
        return [optimizer], [scheduler]


class Data(L.LightningDataModule):
    def train_dataloader(self):
        data = Sentences("/data/tatoeba.pt")
        sampler = BucketSampler(
            data.lengths, 256, rank=self.trainer.global_rank, replicas=self.trainer.world_size
        )
        return DataLoader(data, batch_sampler=sampler, num_workers=4, collate_fn=pad, pin_memory=True)


if __name__ == "__main__":
    trainer = L.Trainer(
        accelerator="gpu",
        devices=2,
        strategy="ddp",
        use_distributed_sampler=False,
        reload_dataloaders_every_n_epochs=0,
        max_epochs=12,
    )
    trainer.fit(LanguageId(), datamodule=Data())
