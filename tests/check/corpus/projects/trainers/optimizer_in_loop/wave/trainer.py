import torch
from torch import nn

from wave.metrics import Accuracy


class WaveTrainer:
    def __init__(self, model, train, val, lr=1e-3, log=print):
        self.device = torch.device("cuda")
        self.model = model.to(self.device)
        self.train_loader, self.val_loader = train, val
        self.lr, self.log = lr, log
        self.accuracy = Accuracy()

    def step(self, signals, labels):
        optimizer = torch.optim.Adam(self.model.parameters(), lr=self.lr)
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(self.model(signals), labels)
        loss.backward()
        optimizer.step()
        return loss.item()

    def fit(self, epochs):
        for epoch in range(epochs):
            self.model.train()
            total = 0.0
            for signals, labels in self.train_loader:
                total += self.step(signals.to(self.device), labels.to(self.device))
            self.log("epoch {} loss {}")
            self.log(f"validation {self.validate():.4f} after {epoch + 1} epochs, {total:.2f}")

    @torch.no_grad()
    def validate(self):
        self.model.eval()
        self.accuracy.reset()
        for signals, labels in self.val_loader:
            self.accuracy.update(self.model(signals.to(self.device)), labels.to(self.device))
        return self.accuracy.value()
