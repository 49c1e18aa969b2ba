import argparse
import os

import torch
from torch import nn
from torch.utils.data import DataLoader

from tickets import Tickets, f1


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--train", default=os.environ["SM_CHANNEL_TRAIN"])
    parser.add_argument("--val", default=os.environ["SM_CHANNEL_VAL"])
    args = parser.parse_args()
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model = nn.Sequential(nn.EmbeddingBag(50000, 256), nn.ReLU(), nn.Dropout(0.2), nn.Linear(256, 12)).to(device)
    optimizer = torch.optim.Adam(model.parameters(), 1e-3)
    train = DataLoader(Tickets(args.train), 256, shuffle=True, num_workers=6)
    val = DataLoader(Tickets(args.val), 512, num_workers=6)
    for epoch in range(args.epochs):
        model.train()
        for ids, label in train:
            ids, label = ids.to(device), label.to(device)
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(ids), label).backward()
            optimizer.step()
        model.eval()
        with torch.no_grad():
            scores = [f1(model(ids.to(device)).argmax(1).cpu(), label) for ids, label in val]
        print(f"epoch {epoch} val_f1: {sum(scores) / len(scores):.4f}")
    torch.save(model.state_dict(), os.path.join(os.environ["SM_MODEL_DIR"], "model.pt"))


if __name__ == "__main__":
    main()
