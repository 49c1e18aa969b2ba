"""One trial of a sweep over tabular networks, compared with boosted trees."""

import argparse
import itertools
import json

import numpy as np
import torch
import xgboost as xgb
from torch import nn

GRID = list(itertools.product([1e-3, 3e-4], [128, 256, 512], [0.0, 0.2]))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--trial", type=int, required=True)
    args = parser.parse_args()
    lr, width, dropout = GRID[args.trial]
    stored = np.load("/data/claims.npz")
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    x = torch.tensor(stored["x"], dtype=torch.float32, device=device)
    y = torch.tensor(stored["y"], dtype=torch.float32, device=device)
    split = int(0.8 * len(x))
    net = nn.Sequential(
        nn.Linear(x.shape[1], width), nn.ReLU(), nn.Dropout(dropout), nn.Linear(width, 1)
    ).to(device)
    optimizer = torch.optim.AdamW(net.parameters(), lr=lr)
    net.train()
    for _ in range(200):
        for rows in torch.randperm(split, device=device).split(4096):
            loss = nn.functional.binary_cross_entropy_with_logits(net(x[rows]).squeeze(1), y[rows])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    net.eval()
    with torch.no_grad():
        right = ((net(x[split:]).squeeze(1) > 0) == (y[split:] > 0.5)).float().mean().item()
    trees = xgb.XGBClassifier(n_estimators=400, device="cuda", tree_method="hist")
    trees.fit(stored["x"][:split], stored["y"][:split])
    score = float((trees.predict(stored["x"][split:]) == stored["y"][split:]).mean())
    with open(f"trial-{args.trial}.json", "w") as file:
        json.dump({"lr": lr, "width": width, "dropout": dropout, "net": right, "trees": score}, file)


if __name__ == "__main__":
    main()
