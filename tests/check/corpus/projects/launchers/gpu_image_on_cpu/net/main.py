import os

import torch
from torch import nn

from loaders import image_loader
from torchvision.models import efficientnet_b0


def accuracy(model, loader, device):
    model.eval()
    hits = 0
    with torch.inference_mode():
        for x, y in loader:
            hits += (model(x.to(device)).argmax(1) == y.to(device)).sum().item()
    return hits / len(loader.dataset)


def main():
    device = torch.device("cuda")
    train, valid = (image_loader(os.environ[f"SM_CHANNEL_{name}"], name == "TRAIN") for name in ("TRAIN", "VALID"))
    model = efficientnet_b0(num_classes=len(train.dataset.classes)).to(device)
    opt = torch.optim.AdamW(model.parameters(), 1e-3)
    for epoch in range(20):
        model.train()
        for x, y in train:
            opt.zero_grad()
            loss = nn.functional.cross_entropy(model(x.to(device)), y.to(device))
            loss.backward()
            opt.step()
        print(f"[{epoch}] loss={loss.item():.4f} val_acc={accuracy(model, valid, device):.4f}")
    torch.save(model.state_dict(), os.path.join(os.environ["SM_MODEL_DIR"], "b0.pt"))


if __name__ == "__main__":
    main()
