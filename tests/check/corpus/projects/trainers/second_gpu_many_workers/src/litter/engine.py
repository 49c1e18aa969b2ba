import torch
from torch import nn
from torch.utils.data import DataLoader
from torchvision.models import efficientnet_b0

from litter import settings


class Engine:
    def __init__(self, classes):
        self.device = torch.device(settings.DEVICE)
        self.model = efficientnet_b0(weights="DEFAULT")
        self.model.classifier[1] = nn.Linear(1280, classes)
        self.model.to(self.device)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-3)

    def fit(self, data):
        loader = DataLoader(
            data, settings.BATCH, shuffle=True, num_workers=settings.WORKERS, pin_memory=True
        )
        for epoch in range(settings.EPOCHS):
            self.model.train()
            for images, labels in loader:
                images = images.to(self.device, non_blocking=True)
                labels = labels.to(self.device, non_blocking=True)
                loss = nn.functional.cross_entropy(self.model(images), labels)
                self.optimizer.zero_grad()
                loss.backward()
                self.optimizer.step()
            print(epoch, loss.item(), flush=True)

    def save(self, path):
        torch.save(self.model.state_dict(), path)
