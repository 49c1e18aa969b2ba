"""A command line built with click."""

import click
import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset


@click.group()
def cli():
    pass


@cli.command()
@click.option("--epochs", default=5, show_default=True)
@click.option("--lr", default=1e-3)
@click.option("--checkpoint", default=None, type=click.Path())
@click.option("--device", default="cuda" if torch.cuda.is_available() else "cpu")
def train(epochs, lr, checkpoint, device):
    model = nn.Linear(16, 2).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=lr)
    loader = DataLoader(TensorDataset(torch.randn(512, 16), torch.randint(0, 2, (512,))), 32, num_workers=2)
    for _ in range(epochs):
        for x, y in loader:
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(x.to(device)), y.to(device))
            loss.backward()
            optimizer.step()
    if checkpoint:
        torch.save(model.state_dict(), checkpoint)


@cli.command()
def export():
    model = nn.Linear(16, 2).cuda()
    scores = model(torch.ones(1, 16).cuda()).numpy()
    torch.save(scores, "scores.pt")


if __name__ == "__main__":
    cli()
