import json
import os

import torch
import torch.nn.functional as F
from torch.utils.data import DataLoader
from torchvision import datasets, transforms
from torchvision.models import mobilenet_v3_large

OPTIONS = json.loads(os.environ["AUGMENT"])
EPOCHS = int(os.environ.get("EPOCHS", "5"))


def transform():
    steps = [transforms.RandomResizedCrop(224, scale=tuple(OPTIONS["crop"]))]
    if OPTIONS["flip"]:
        steps.append(transforms.RandomHorizontalFlip())
    steps += [transforms.ColorJitter(OPTIONS["jitter"], OPTIONS["jitter"]), transforms.ToTensor()]
    return transforms.Compose(steps)


def main():
    device = torch.device("cuda")
    data = datasets.ImageFolder(os.environ["SM_CHANNEL_TRAIN"], transform())
    loader = DataLoader(data, 128, shuffle=True, num_workers=12, pin_memory=True)
    model = mobilenet_v3_large(num_classes=len(data.classes)).to(device)
    opt = torch.optim.RMSprop(model.parameters(), 1e-3, momentum=0.9)
    for epoch in range(EPOCHS):
        for x, y in loader:
            opt.zero_grad()
            loss = F.cross_entropy(model(x.to(device)), y.to(device))
            loss.backward()
            opt.step()
        print("epoch", epoch, "loss", loss.item())
    torch.save(model.state_dict(), f"{os.environ['SM_MODEL_DIR']}/model.pt")


if __name__ == "__main__":
    main()
