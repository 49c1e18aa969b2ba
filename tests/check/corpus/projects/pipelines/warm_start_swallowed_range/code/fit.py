import argparse
import os

import numpy as np
import torch
from torch import nn


def auc(scores, labels):
    order = scores.argsort()
    ranks = torch.empty_like(scores)
    ranks[order] = torch.arange(1, len(scores) + 1, dtype=scores.dtype, device=scores.device)
    positive = labels > 0
    n = positive.sum()
    return ((ranks[positive].sum() - n * (n + 1) / 2) / (n * (len(labels) - n))).item()


def tensors(name, device):
    with np.load(os.path.join(os.environ["SM_CHANNEL_DATA"], f"{name}.npz")) as data:
        return torch.from_numpy(data["x"]).float().to(device), torch.from_numpy(data["y"]).float().to(device)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--patience", type=int, default=3)
    parser.add_argument("--lr", type=float, default=1e-3)
    parser.add_argument("--width", type=int, default=256)
    parser.add_argument("--dropout", type=float, default=0.1)
    args, _ = parser.parse_known_args()
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    x, y = tensors("train", device)
    x_valid, y_valid = tensors("valid", device)
    model = nn.Sequential(
        nn.Linear(x.shape[1], args.width), nn.ReLU(), nn.Dropout(args.dropout), nn.Linear(args.width, 1), nn.Flatten(0)
    ).to(device)
    optimizer = torch.optim.Adam(model.parameters(), args.lr)
    best, waited = 0.0, 0
    path = os.path.join(os.environ["SM_MODEL_DIR"], "model.pt")
    for epoch in range(args.epochs):
        model.train()
        for index in torch.randperm(len(x), device=device).split(4096):
            optimizer.zero_grad()
            nn.functional.binary_cross_entropy_with_logits(model(x[index]), y[index]).backward()
            optimizer.step()
        model.eval()
        with torch.inference_mode():
            score = auc(model(x_valid), y_valid)
        print(f"epoch {epoch} valid_auc {score:.5f}", flush=True)
        if score > best:
            best, waited = score, 0
            torch.save(model.state_dict(), path)
        elif (waited := waited + 1) > args.patience:
            break


if __name__ == "__main__":
    main()
