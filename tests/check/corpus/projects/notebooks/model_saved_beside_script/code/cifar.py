import argparse
import os

import torch
import torchvision
from torch import nn
from torchvision import transforms


def net():
    return torchvision.models.resnet18(num_classes=10)


def train(args):
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    tf = transforms.Compose([transforms.RandomHorizontalFlip(), transforms.ToTensor()])
    data = torchvision.datasets.CIFAR10(args.data, train=True, transform=tf)
    loader = torch.utils.data.DataLoader(data, args.batch_size, shuffle=True, num_workers=3, pin_memory=True)
    model = net().to(device)
    optimizer = torch.optim.SGD(model.parameters(), args.lr, momentum=0.9)
    for epoch in range(args.epochs):
        model.train()
        for x, y in loader:
            x, y = x.to(device), y.to(device)
            loss = nn.functional.cross_entropy(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        print(f"epoch={epoch} loss={loss.item():.4f}")
    torch.save(model.state_dict(), "cifar.pth")


def model_fn(model_dir):
    model = net()
    model.load_state_dict(torch.load(os.path.join(model_dir, "model.pth"), map_location="cpu"))
    return model.eval()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--lr", type=float, default=0.05)
    parser.add_argument("--data", default=os.environ.get("SM_CHANNEL_TRAINING"))
    parser.add_argument("--model-dir", default=os.environ.get("SM_MODEL_DIR"))
    train(parser.parse_args())
