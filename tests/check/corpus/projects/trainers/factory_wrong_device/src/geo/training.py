from dataclasses import dataclass, field

import torch
from torch.utils.data import DataLoader

from geo.factory import make_model, make_optimizer


@dataclass
class Run:
    loader: DataLoader
    kind: str = "small"
    optimizer: str = "adam"
    lr: float = 1e-3
    device: torch.device = field(default_factory=lambda: torch.device("cuda"))

    def __post_init__(self):
        self.model = make_model(self.kind).to(self.device)
        self.opt = make_optimizer(self.optimizer, self.model, self.lr)

    def epoch(self):
        self.model.train()
        for batch in self.loader:
            images = batch["image"].to(self.device, non_blocking=True)
            targets = batch["elevation"]
            output = self.model(images)
            loss = torch.nn.functional.mse_loss(output, targets)
            self.opt.zero_grad()
            loss.backward()
            self.opt.step()
        return loss.item()
