import lightning.pytorch as pl
import torch
from torch import nn


class LSTMForecaster(pl.LightningModule):
    def __init__(self, hidden=256, horizon=24, lr=1e-3):
        super().__init__()
        self.save_hyperparameters()
        self.lstm = nn.LSTM(1, hidden, num_layers=2, batch_first=True, dropout=0.1)
        self.head = nn.Linear(hidden, horizon)

    def forward(self, window):
        output, _ = self.lstm(window.unsqueeze(-1))
        return self.head(output[:, -1])

    def shared_step(self, batch):
        window, future = batch
        return nn.functional.mse_loss(self(window), future)

    def training_step(self, batch, batch_idx):
        loss = self.shared_step(batch)
        self.log("train_loss", loss)
        return loss

    def validation_step(self, batch, batch_idx):
        self.log("val_loss", self.shared_step(batch), prog_bar=True)

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=self.hparams.lr)
