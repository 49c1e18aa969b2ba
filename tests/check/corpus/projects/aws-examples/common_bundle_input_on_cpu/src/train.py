import argparse
import json
import os
from pathlib import Path

import torch
from torch.utils.data import DataLoader, Dataset
from torchvision.io import decode_image
from torchvision.models.detection import ssdlite320_mobilenet_v3_large

CHECKPOINT = Path("/opt/ml/checkpoints/last.pt")


class Helmets(Dataset):
    def __init__(self, images, labels):
        self.images = Path(images)
        self.rows = json.loads((Path(labels) / "train.json").read_text())

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, i):
        row = self.rows[i]
        image = decode_image(str(self.images / row["file"]), "RGB").float() / 255
        return image, {"boxes": torch.tensor(row["boxes"]).float(), "labels": torch.tensor(row["labels"])}


def move(target, device):
    return {name: value.to(device) for name, value in target.items()}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--lr", type=float, default=1e-3)
    args = parser.parse_args()
    device = torch.device("cuda")
    data = Helmets(os.environ["SM_CHANNEL_IMAGES"], os.environ["SM_CHANNEL_LABELS"])
    loader = DataLoader(data, 24, shuffle=True, num_workers=7, collate_fn=lambda rows: tuple(zip(*rows)))
    model = ssdlite320_mobilenet_v3_large(weights=None, num_classes=3).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), args.lr)
    start = 0
    if CHECKPOINT.exists():
        state = torch.load(CHECKPOINT, map_location=device, weights_only=True)
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        start = state["epoch"] + 1
    for epoch in range(start, args.epochs):
        model.train()
        for images, targets in loader:
            losses = model([image.to(device) for image in images], [move(target, device) for target in targets])
            loss = sum(losses.values())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        print(f"epoch={epoch} train_loss={loss.item():.4f}")
        torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "epoch": epoch}, CHECKPOINT)
    torch.save(model.state_dict(), os.path.join(os.environ["SM_MODEL_DIR"], "helmets.pt"))


if __name__ == "__main__":
    main()
