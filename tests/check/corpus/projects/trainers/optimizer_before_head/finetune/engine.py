import torch
from torch import nn
from torchvision.models import resnet18


def build(classes, device):
    model = resnet18(weights="IMAGENET1K_V1")
    for parameter in model.parameters():
        parameter.requires_grad = False
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    model.fc = nn.Linear(model.fc.in_features, classes)
    return model.to(device), optimizer


class Engine:
    def __init__(self, classes, device="cuda"):
        self.device = device
        self.model, self.optimizer = build(classes, device)
        self.criterion = nn.CrossEntropyLoss()

    def train(self, loader):
        self.model.train()
        total = 0.0
        for images, labels in loader:
            images, labels = images.to(self.device), labels.to(self.device)
            self.optimizer.zero_grad()
            loss = self.criterion(self.model(images), labels)
            loss.backward()
            self.optimizer.step()
            total += loss.item
        return total / len(loader)

    @torch.no_grad()
    def test(self, loader):
        self.model.eval()
        right = 0
        for images, labels in loader:
            right += (self.model(images.to(self.device)).argmax(1).cpu() == labels).sum().item()
        return right / len(loader.dataset)
