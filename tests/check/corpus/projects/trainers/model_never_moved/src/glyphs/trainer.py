from __future__ import annotations

import logging
from pathlib import Path

import torch
from torch import nn
from torch.utils.data import DataLoader

log = logging.getLogger(__name__)


class Trainer:
    """Fits a model and keeps the best weights."""

    def __init__(self, model: nn.Module, device: str, lr: float = 1e-3) -> None:
        self.model = model
        self.device = torch.device(device)
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=lr)
        self.criterion = nn.CrossEntropyLoss()
        self.best = 0.0

    def fit(self, train: DataLoader, val: DataLoader, epochs: int, folder: Path) -> None:
        for epoch in range(epochs):
            self._train_epoch(train)
            accuracy = self._accuracy(val)
            log.info("epoch %d: %.4f", epoch, accuracy)
            if accuracy > self.best:
                self.best = accuracy
                torch.save(self.model.state_dict(), folder / "best.pt")

    def _train_epoch(self, loader: DataLoader) -> None:
        self.model.train()
        for images, labels in loader:
            images = images.to(self.device, non_blocking=True)
            labels = labels.to(self.device, non_blocking=True)
            logits = self.model(images)
            loss = self.criterion(logits, labels)
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()

    @torch.no_grad()
    def _accuracy(self, loader: DataLoader) -> float:
        self.model.eval()
        right = 0
        for images, labels in loader:
            found = self.model(images.to(self.device)).argmax(dim=1)
            right += (found == labels.to(self.device)).sum().item()
        return right / len(loader.dataset)
