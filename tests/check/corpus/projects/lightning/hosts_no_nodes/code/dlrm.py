import pytorch_lightning as pl
import torch
from torch import nn


class DLRM(pl.LightningModule):
    def __init__(self, tables=26, rows=200_000, width=32, dense=13):
        super().__init__()
        self.tables = nn.ModuleList(nn.EmbeddingBag(rows, width, mode="sum") for _ in range(tables))
        self.bottom = nn.Sequential(nn.Linear(dense, 128), nn.ReLU(), nn.Linear(128, width))
        self.top = nn.Sequential(nn.Linear((tables + 1) * width, 256), nn.ReLU(), nn.Linear(256, 1))
        self.loss = nn.BCEWithLogitsLoss()

    def forward(self, dense, sparse):
        parts = [self.bottom(dense)]
        parts += [table(sparse[:, i : i + 1]) for i, table in enumerate(self.tables)]
        return self.top(torch.cat(parts, dim=1)).squeeze(1)

    def training_step(self, batch, batch_idx):
        dense, sparse, clicked = batch
        loss = self.loss(self(dense, sparse), clicked)
        self.log("loss", loss, prog_bar=True)
        return loss

    def configure_optimizers(self):
        return torch.optim.Adagrad(self.parameters(), lr=0.01)
