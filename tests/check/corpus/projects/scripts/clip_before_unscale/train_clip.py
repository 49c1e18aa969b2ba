import argparse
import json
from pathlib import Path

import torch
from torch.utils.data import DataLoader, Dataset
from torchvision.io import decode_image
from torchvision.transforms import v2

from clip import TwoTower, contrastive_loss


class Pairs(Dataset):
    def __init__(self, path):
        self.rows = [json.loads(line) for line in Path(path).read_text().splitlines()]
        self.tf = v2.Compose([v2.RandomResizedCrop(224, antialias=True), v2.ToDtype(torch.float32, scale=True)])

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, i):
        row = self.rows[i]
        tokens = torch.zeros(77, dtype=torch.long)
        ids = torch.tensor(row["ids"][:77])
        tokens[: len(ids)] = ids
        return self.tf(decode_image(row["image"], "RGB")), tokens


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("pairs")
    parser.add_argument("--vocab", type=int, default=49408)
    parser.add_argument("--epochs", type=int, default=32)
    args = parser.parse_args()
    device = torch.device("cuda")
    loader = DataLoader(Pairs(args.pairs), 256, shuffle=True, num_workers=12, pin_memory=True, drop_last=True)
    model = TwoTower(args.vocab).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), 5e-4, weight_decay=0.2)
    scaler = torch.amp.GradScaler("cuda")
    for epoch in range(args.epochs):
        for pixels, tokens in loader:
            pixels, tokens = pixels.to(device, non_blocking=True), tokens.to(device, non_blocking=True)
            with torch.autocast("cuda"):
                loss = contrastive_loss(*model(pixels, tokens))
            optimizer.zero_grad(set_to_none=True)
            scaler.scale(loss).backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            scaler.step(optimizer)
            scaler.update()
        print(f"epoch {epoch}: {loss.item():.4f}")
        torch.save(model.state_dict(), "clip.pt")


if __name__ == "__main__":
    main()
