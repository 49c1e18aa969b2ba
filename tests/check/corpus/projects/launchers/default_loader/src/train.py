import argparse
import os

import torch
import torchvision
from torchvision.transforms import v2


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=5)
    args = parser.parse_args()
    device = "cuda:0"
    tf = v2.Compose([v2.ToImage(), v2.RandomResizedCrop(224), v2.RandomHorizontalFlip(), v2.ToDtype(torch.float32, scale=True)])
    tiles = torchvision.datasets.ImageFolder(os.environ["SM_CHANNEL_TRAIN"], tf)
    loader = torch.utils.data.DataLoader(tiles, batch_size=96, shuffle=True)
    model = torchvision.models.resnet50(num_classes=len(tiles.classes)).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), 3e-4)
    loss_fn = torch.nn.CrossEntropyLoss()
    for epoch in range(args.epochs):
        model.train()
        for tile, label in loader:
            loss = loss_fn(model(tile.to(device)), label.to(device))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        print(f"epoch {epoch} loss {loss:.4f}")
    torch.save(model.state_dict(), os.path.join(os.environ["SM_MODEL_DIR"], "tiles.pt"))


if __name__ == "__main__":
    main()
