import argparse
import os
from pathlib import Path

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Clicks(Dataset):
    def __init__(self, folder):
        shards = [torch.load(path, weights_only=True) for path in sorted(Path(folder).glob("*.pt"))]
        self.query = torch.cat([s["query"] for s in shards])
        self.item = torch.cat([s["item"] for s in shards])
        self.click = torch.cat([s["click"] for s in shards]).float()

    def __len__(self):
        return len(self.click)

    def __getitem__(self, i):
        return self.query[i], self.item[i], self.click[i]


class Ranker(nn.Module):
    def __init__(self, queries=200_000, items=500_000, dim=96):
        super().__init__()
        self.query, self.item = nn.Embedding(queries, dim), nn.Embedding(items, dim)
        self.mlp = nn.Sequential(nn.Linear(2 * dim, 256), nn.ReLU(), nn.Linear(256, 1))

    def forward(self, query, item):
        return self.mlp(torch.cat([self.query(query), self.item(item)], -1)).squeeze(-1)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=3)
    args = parser.parse_args()
    device = torch.device("cuda")
    loader = DataLoader(Clicks(os.environ["SM_CHANNEL_CLICKS"]), 8192, shuffle=True, num_workers=3, pin_memory=True)
    model = Ranker().to(device)
    optimizer = torch.optim.Adam(model.parameters(), 1e-3)
    for epoch in range(args.epochs):
        for query, item, click in loader:
            query, click = query.to(device), click.to(device)
            loss = nn.functional.binary_cross_entropy_with_logits(model(query, item), click)
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            optimizer.step()
        print(f"epoch {epoch} loss {loss.item():.4f}")
    torch.save(model.state_dict(), Path(os.environ["SM_MODEL_DIR"]) / "ranker.pt")


if __name__ == "__main__":
    main()
