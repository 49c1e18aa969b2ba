"""A network in two parts, one per GPU; activations are copied between them."""
import argparse
import os

import torch
from torch import nn
from torch.utils.data import DataLoader
from torchvision import datasets, models, transforms


class Halves(nn.Module):
    def __init__(self, classes, first="cuda:0", second="cuda:1"):
        super().__init__()
        base = models.resnet152(weights=None, num_classes=classes)
        self.first, self.second = torch.device(first), torch.device(second)
        self.front = nn.Sequential(base.conv1, base.bn1, base.relu, base.maxpool, base.layer1, base.layer2).to(self.first)
        self.back = nn.Sequential(base.layer3, base.layer4, base.avgpool, nn.Flatten(), base.fc).to(self.second)

    def forward(self, x):
        return self.back(self.front(x.to(self.first)))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=20)
    args = parser.parse_args()
    tf = transforms.Compose([transforms.RandomResizedCrop(448), transforms.ToTensor()])
    data = datasets.ImageFolder(os.environ["SM_CHANNEL_TRAIN"], tf)
    loader = DataLoader(data, 48, shuffle=True, num_workers=20, pin_memory=True)
    model = Halves(len(data.classes))
    optimizer = torch.optim.SGD(model.parameters(), 0.05, momentum=0.9)
    for epoch in range(args.epochs):
        model.train()
        for x, y in loader:
            loss = nn.functional.cross_entropy(model(x), y.to(model.second))
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            optimizer.step()
        print(f"epoch {epoch} loss {loss.item():.4f}")
    torch.save(model.state_dict(), os.path.join(os.environ["SM_MODEL_DIR"], "halves.pt"))


if __name__ == "__main__":
    main()
