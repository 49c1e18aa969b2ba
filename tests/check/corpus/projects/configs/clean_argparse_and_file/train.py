"""Arguments win over the file of settings, and the file over the defaults: set_defaults does it."""

import argparse
import os

import torch
import yaml
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def parse():
    first = argparse.ArgumentParser(add_help=False)
    first.add_argument("--config")
    known, rest = first.parse_known_args()
    parser = argparse.ArgumentParser(parents=[first])
    parser.add_argument("--width", type=int, default=128)
    parser.add_argument("--depth", type=int, default=3)
    parser.add_argument("--lr", type=float, default=1e-3)
    parser.add_argument("--batch_size", "--batch-size", type=int, default=256)
    parser.add_argument("--num_workers", type=int, default=0)
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--amp", action=argparse.BooleanOptionalAction, default=False)
    if known.config:
        with open(known.config) as file:
            parser.set_defaults(**yaml.safe_load(file))
    return parser.parse_args(rest)


def main():
    args = parse()
    device = torch.device("cuda")
    path = os.path.join(os.environ["SM_CHANNEL_TRAIN"], "table.pt")
    table = torch.load(path, map_location="cpu", weights_only=True)
    data = TensorDataset(table["x"], table["y"])
    loader = DataLoader(
        data, args.batch_size, shuffle=True, num_workers=args.num_workers, pin_memory=True
    )
    layers = [nn.Linear(table["x"].shape[1], args.width)]
    for _ in range(args.depth):
        layers += [nn.ReLU(), nn.Linear(args.width, args.width)]
    model = nn.Sequential(*layers, nn.ReLU(), nn.Linear(args.width, 1)).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.lr)
    for epoch in range(args.epochs):
        for x, y in loader:
            x, y = x.to(device, non_blocking=True), y.to(device, non_blocking=True)
            with torch.autocast("cuda", torch.bfloat16, enabled=args.amp):
                loss = nn.functional.mse_loss(model(x).squeeze(1), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        print(epoch, loss.item(), flush=True)
    torch.save(model.state_dict(), os.path.join(os.environ["SM_MODEL_DIR"], "table.pt"))


if __name__ == "__main__":
    main()
