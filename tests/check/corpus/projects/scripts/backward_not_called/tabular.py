import argparse

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Block(nn.Module):
    def __init__(self, width, dropout):
        super().__init__()
        self.net = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, width), nn.GELU(), nn.Dropout(dropout))

    def forward(self, x):
        return x + self.net(x)


class Tabular(nn.Module):
    def __init__(self, features, hidden=256, depth=4, dropout=0.1):
        super().__init__()
        self.inp = nn.Linear(features, hidden)
        self.blocks = nn.ModuleList([Block(hidden, dropout) for _ in range(depth)])
        self.out = nn.Linear(hidden, 1)

    def forward(self, x):
        x = self.inp(x)
        for block in self.blocks:
            x = block(x)
        return self.out(x).squeeze(-1)


def load(path):
    data = np.load(path)
    return TensorDataset(torch.from_numpy(data["x"]).float(), torch.from_numpy(data["y"]).float())


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--train", default="train.npz")
    parser.add_argument("--valid", default="valid.npz")
    parser.add_argument("--early-stop", action=argparse.BooleanOptionalAction, default=True)
    parser.add_argument("--patience", type=int, default=5)
    args = parser.parse_args()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    train, valid = load(args.train), load(args.valid)
    model = Tabular(train.tensors[0].shape[1]).to(device)
    opt = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=1e-2)
    loss_fn = nn.MSELoss()
    best, bad = float("inf"), 0
    train_dl = DataLoader(train, 4096, shuffle=True, num_workers=2, pin_memory=True)
    valid_dl = DataLoader(valid, 8192, num_workers=2, pin_memory=True)
    for epoch in range(200):
        model.train()
        for x, y in train_dl:
            opt.zero_grad()
            loss_fn(model(x.to(device)), y.to(device)).backward
            opt.step()
        model.eval()
        with torch.no_grad():
            rmse = np.sqrt(np.mean([loss_fn(model(x.to(device)), y.to(device)).item() for x, y in valid_dl]))
        print(f"{epoch}: rmse {rmse:.4f}")
        if rmse < best:
            best, bad = rmse, 0
            torch.save(model.state_dict(), "tabular.pt")
        elif args.early_stop and (bad := bad + 1) >= args.patience:
            break


if __name__ == "__main__":
    main()
