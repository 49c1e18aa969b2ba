import argparse

import torch
import torch.nn.functional as F
from torch_geometric.datasets import Planetoid
from torch_geometric.transforms import NormalizeFeatures

from gnn.models import MODELS, create


def train_step(model, data, optimizer):
    model.train()
    optimizer.zero_grad()
    out = model(data.x, data.edge_index)
    loss = F.cross_entropy(out[data.train_mask], data.y[data.train_mask])
    loss.backward()
    optimizer.step()
    return loss.item()


@torch.no_grad()
def accuracy(model, data, mask):
    model.eval()
    guess = model(data.x, data.edge_index).argmax(1)
    return (guess[mask] == data.y[mask]).float().mean().item()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", choices=sorted(MODELS), default="gcn")
    parser.add_argument("--dataset", default="Cora")
    parser.add_argument("--hidden", type=int, default=64)
    parser.add_argument("--epochs", type=int, default=200)
    args = parser.parse_args()
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    dataset = Planetoid("data", args.dataset, transform=NormalizeFeatures())
    data = dataset[0].to(device)
    model = create(args.model, features=dataset.num_features, hidden=args.hidden, classes=dataset.num_classes)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01, weight_decay=5e-4)
    best = 0.0
    for epoch in range(args.epochs):
        loss = train_step(model, data, optimizer)
        valid = accuracy(model, data, data.val_mask)
        if valid > best:
            best = valid
            torch.save(model.state_dict(), f"{args.model}.pt")
        if epoch % 20 == 0:
            print(f"epoch {epoch} loss {loss:.4f} valid {valid:.4f}")
    model.load_state_dict(torch.load(f"{args.model}.pt", map_location=device, weights_only=True))
    print(f"test {accuracy(model, data, data.test_mask):.4f}")


if __name__ == "__main__":
    main()
