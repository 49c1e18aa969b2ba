"""The loop lives in the base class: subclasses say what a step is, the base moves, accumulates and validates."""

from __future__ import annotations

from abc import ABC, abstractmethod

import torch


class BaseTrainer(ABC):
    def __init__(self, model, optimizer, device, accumulate=1):
        self.model = model
        self.optimizer = optimizer
        self.device = device
        self.accumulate = accumulate
        self.history = []

    @abstractmethod
    def step(self, batch):
        """The loss of a batch that is on the device already."""

    def move(self, batch):
        return {name: value.to(self.device, non_blocking=True) for name, value in batch.items()}

    def run(self, train, val, epochs):
        for epoch in range(epochs):
            mean = self.train_epoch(train)
            self.history.append((epoch, mean, self.validate(val)))
        return self.history

    def train_epoch(self, loader):
        self.model.train()
        total = 0.0
        self.optimizer.zero_grad()
        for number, batch in enumerate(loader, 1):
            loss = self.step(self.move(batch))
            (loss / self.accumulate).backward()
            total += loss.item()
            if number % self.accumulate == 0 or number == len(loader):
                self.optimizer.step()
                self.optimizer.zero_grad()
        return total / len(loader)

    def validate(self, loader):
        self.model.eval()
        with torch.inference_mode():
            return sum(self.step(self.move(batch)).item() for batch in loader) / len(loader)
