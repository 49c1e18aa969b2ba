"""click reads booleans as they are written: `--augment true` and `--augment False` both do what they say."""

import os

import click
import torch
from fields import Fields
from torch import nn
from torch.utils.data import DataLoader
from torchvision.models import resnet18


@click.command()
@click.option("--epochs", type=int, default=10, show_default=True)
@click.option("--batch-size", type=int, default=32, show_default=True)
@click.option("--augment", type=bool, default=False)
@click.option("--workers", type=int, default=7)
@click.option("--data", envvar="SM_CHANNEL_FIELDS", type=click.Path(exists=True), required=True)
@click.option("--model-dir", envvar="SM_MODEL_DIR", default="out")
def main(epochs, batch_size, augment, workers, data, model_dir):
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    loader = DataLoader(Fields(data, augment), batch_size, shuffle=True, num_workers=workers, pin_memory=True)
    model = resnet18(weights="DEFAULT")
    model.fc = nn.Linear(512, 1)
    model.to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)
    for epoch in range(epochs):
        model.train()
        total = 0.0
        for images, yields in loader:
            images, yields = images.to(device, non_blocking=True), yields.to(device, non_blocking=True)
            loss = nn.functional.mse_loss(model(images).squeeze(1), yields)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.item()
        click.echo(f"epoch {epoch}: {total / len(loader):.4f}")
    os.makedirs(model_dir, exist_ok=True)
    torch.save(model.state_dict(), os.path.join(model_dir, "crops.pt"))


if __name__ == "__main__":
    main()
