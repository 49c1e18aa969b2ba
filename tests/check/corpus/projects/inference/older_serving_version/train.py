import argparse
import os

import torch
from torch import nn
from torch.utils.data import DataLoader
from torchvision.datasets import ImageFolder
from torchvision.models import densenet121
from torchvision.transforms import Compose, Resize, ToTensor

if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=10)
    args = parser.parse_args()
    data = ImageFolder(os.environ["SM_CHANNEL_TRAIN"], Compose([Resize((224, 224)), ToTensor()]))
    loader = DataLoader(data, 48, shuffle=True, num_workers=4, pin_memory=True)
    model = densenet121(num_classes=len(data.classes)).cuda()
    opt = torch.optim.Adam(model.parameters(), 1e-4)
    for epoch in range(args.epochs):
        model.train()
        for x, y in loader:
            loss = nn.functional.cross_entropy(model(x.cuda()), y.cuda())
            opt.zero_grad()
            loss.backward()
            opt.step()
        print("epoch", epoch, loss.item())
    torch.save(model.state_dict(), os.path.join(os.environ["SM_MODEL_DIR"], "model.pt"))
