"""A character language model."""

import pytorch_lightning as pl
import torch
import torch.nn.functional as F
from torch import nn


class CharModel(pl.LightningModule):
    def __init__(self, vocabulary: int = 96, width: int = 256, depth: int = 4):
        super().__init__()
        self.save_hyperparameters()
        self.embed = nn.Embedding(vocabulary, width)
        layer = nn.TransformerEncoderLayer(width, 4, 4 * width, batch_first=True)
        self.body = nn.TransformerEncoder(layer, depth)
        self.head = nn.Linear(width, vocabulary)

    def forward(self, tokens):
        mask = nn.Transformer.generate_square_subsequent_mask(tokens.size(1), device=tokens.device)
        return self.head(self.body(self.embed(tokens), mask=mask, is_causal=True))

    def training_step(self, batch, batch_idx):
        logits = self(batch[:, :-1])
        loss = F.cross_entropy(logits.flatten(0, 1), batch[:, 1:].flatten())
        self.log("loss", loss)
        return loss

    def training_epoch_end(self, outputs):
        mean = torch.stack([step["loss"] for step in outputs]).mean()
        self.log("epoch_loss", mean)

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=3e-4, weight_decay=0.1)
