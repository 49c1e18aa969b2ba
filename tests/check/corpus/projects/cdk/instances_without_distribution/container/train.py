import torch
from torch import nn
from torch.utils.data import DataLoader
from torchvision import datasets, transforms


def forest_net():
    return nn.Sequential(
        nn.Conv2d(3, 64, 5, 2), nn.ReLU(), nn.Conv2d(64, 128, 3, 2), nn.ReLU(), nn.AdaptiveAvgPool2d(1),
        nn.Flatten(), nn.Linear(128, 7),
    )


if __name__ == "__main__":
    data = datasets.ImageFolder("/opt/ml/input/data/train", transforms.ToTensor())
    loader = DataLoader(data, batch_size=64, shuffle=True, num_workers=4)
    model = forest_net()
    optimizer = torch.optim.Adam(model.parameters())
    for epoch in range(10):
        for images, labels in loader:
            loss = nn.functional.cross_entropy(model(images), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        print("epoch", epoch, loss.item())
    torch.save(model.state_dict(), "/opt/ml/model/forest.pt")
