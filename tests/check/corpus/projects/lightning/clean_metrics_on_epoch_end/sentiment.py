"""Sentiment with a frozen encoder: outputs of validation are kept on purpose, on the CPU and without graphs."""

import pytorch_lightning as pl
import torch
from sklearn.metrics import f1_score
from torch import nn
from transformers import AutoModel


class Sentiment(pl.LightningModule):
    def __init__(self, name="distilbert-base-uncased", lr=1e-3):
        super().__init__()
        self.save_hyperparameters()
        self.encoder = AutoModel.from_pretrained(name)
        self.encoder.requires_grad_(False)
        self.head = nn.Linear(self.encoder.config.hidden_size, 2)
        self.outputs = []

    def forward(self, ids, mask):
        with torch.no_grad():
            states = self.encoder(input_ids=ids, attention_mask=mask).last_hidden_state
        return self.head(states[:, 0])

    def on_train_epoch_start(self):
        self.encoder.eval()

    def training_step(self, batch, batch_idx):
        logits = self(batch["input_ids"], batch["attention_mask"])
        loss = nn.functional.cross_entropy(logits, batch["labels"])
        self.log("train_loss", loss)
        return {"loss": loss}

    def validation_step(self, batch, batch_idx):
        logits = self(batch["input_ids"], batch["attention_mask"])
        self.outputs.append((logits.argmax(1).cpu(), batch["labels"].cpu()))

    def on_validation_epoch_end(self):
        predictions = torch.cat([pair[0] for pair in self.outputs]).numpy()
        labels = torch.cat([pair[1] for pair in self.outputs]).numpy()
        self.log("val_f1", float(f1_score(labels, predictions)))
        self.outputs.clear()

    def configure_optimizers(self):
        return torch.optim.AdamW(self.head.parameters(), lr=self.hparams.lr)
