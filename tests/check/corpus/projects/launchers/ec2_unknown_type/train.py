import argparse

import torch
from torch import nn
from torch.utils.data import DataLoader
from torchvision import datasets, models, transforms


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", required=True)
    parser.add_argument("--epochs", type=int, default=20)
    args = parser.parse_args()
    device = torch.device("cuda")
    tf = transforms.Compose([transforms.RandomCrop(96, 8), transforms.ToTensor()])
    data = datasets.STL10("data", split="train", download=True, transform=tf)
    loader = DataLoader(data, 128, shuffle=True, num_workers=4, pin_memory=True)
    model = models.resnet34(num_classes=10).to(device)
    opt = torch.optim.SGD(model.parameters(), 0.05, momentum=0.9)
    for epoch in range(args.epochs):
        model.train()
        for x, y in loader:
            loss = nn.functional.cross_entropy(model(x.to(device)), y.to(device))
            opt.zero_grad()
            loss.backward()
            opt.step()
        print("epoch", epoch, "loss", loss.item())
    torch.save(model.state_dict(), args.out)


if __name__ == "__main__":
    main()
