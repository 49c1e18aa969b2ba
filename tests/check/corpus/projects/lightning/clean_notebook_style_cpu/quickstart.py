"""A tutorial that runs on any laptop: the CPU is meant, and so is the loader without workers."""

import lightning as L
import torch
from sklearn.datasets import load_breast_cancer
from sklearn.model_selection import train_test_split
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Tumours(L.LightningModule):
    def __init__(self, features: int):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(features, 16), nn.ReLU(), nn.Linear(16, 1))
        self.loss = nn.BCEWithLogitsLoss()

    def forward(self, x):
        return self.net(x).squeeze(1)

    def training_step(self, batch, batch_idx):
        x, y = batch
        return self.loss(self(x), y)

    def validation_step(self, batch, batch_idx):
        x, y = batch
        logits = self(x)
        self.log("val_loss", self.loss(logits, y))
        self.log("val_accuracy", ((logits > 0) == (y > 0.5)).float().mean(), prog_bar=True)

    def predict_step(self, batch, batch_idx):
        return self(batch[0]).sigmoid()

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=1e-2)


def main():
    data = load_breast_cancer()
    x = torch.tensor(data.data, dtype=torch.float32)
    x = (x - x.mean(0)) / x.std(0)
    y = torch.tensor(data.target, dtype=torch.float32)
    x_train, x_val, y_train, y_val = train_test_split(x, y, test_size=0.25, random_state=0)
    train = DataLoader(TensorDataset(x_train, y_train), batch_size=32, shuffle=True)
    val = DataLoader(TensorDataset(x_val, y_val), batch_size=128)
    trainer = L.Trainer(accelerator="cpu", max_epochs=20, logger=False, enable_checkpointing=False)
    model = Tumours(x.size(1))
    trainer.fit(model, train, val)
    scores = torch.cat(trainer.predict(model, val))
    print("share of benign:", (scores > 0.5).float().mean().item())


if __name__ == "__main__":
    main()
