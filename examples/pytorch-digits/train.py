"""Trains a small convolutional network on handwritten digits. Plain PyTorch: nothing here knows of Tarmac."""

import argparse
import json
import os
from pathlib import Path

import torch
from digits import split
from network import DigitNet
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def main() -> None:
    arguments = parse_arguments()
    torch.manual_seed(arguments.seed)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    print(f"PyTorch {torch.__version__} trains on {device}", flush=True)

    train_images, test_images, train_labels, test_labels = map(torch.from_numpy, split())
    loader = DataLoader(TensorDataset(train_images, train_labels), arguments.batch_size, shuffle=True)
    settings = {"channels": arguments.channels, "dropout": 0.3}
    model = DigitNet(**settings).to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=arguments.learning_rate)

    checkpoint = Path(arguments.checkpoint_dir, "checkpoint.pt")
    for epoch in range(resume(checkpoint, model, optimizer, device), arguments.epochs):
        loss = train_one_epoch(model, loader, optimizer, device)
        accuracy = accuracy_of(model, test_images.to(device), test_labels.to(device))
        print(f"epoch {epoch + 1}/{arguments.epochs} loss {loss:.4f} val_accuracy {accuracy:.4f}", flush=True)
        save_checkpoint(checkpoint, epoch + 1, model, optimizer)

    model_dir = Path(arguments.model_dir)
    model_dir.mkdir(parents=True, exist_ok=True)
    torch.save(model.cpu().state_dict(), model_dir / "model.pth")
    (model_dir / "model.json").write_text(json.dumps(settings))
    checkpoint.unlink(missing_ok=True)  # the next attempt begins anew
    print(f"saved to {model_dir}")


def train_one_epoch(
    model: nn.Module, loader: DataLoader, optimizer: torch.optim.Optimizer, device: torch.device
) -> float:
    model.train()
    total = 0.0
    for images, labels in loader:
        loss = nn.functional.cross_entropy(model(images.to(device)), labels.to(device))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total += loss.item() * len(labels)
    return total / len(loader.dataset)


@torch.no_grad()
def accuracy_of(model: nn.Module, images: torch.Tensor, labels: torch.Tensor) -> float:
    model.eval()
    return (model(images).argmax(1) == labels).float().mean().item()


def resume(path: Path, model: nn.Module, optimizer: torch.optim.Optimizer, device: torch.device) -> int:
    """Goes on where an attempt that was cut short has stopped; gives the epoch to begin with."""
    if not path.is_file():
        return 0
    saved = torch.load(path, map_location=device, weights_only=True)
    model.load_state_dict(saved["model"])
    optimizer.load_state_dict(saved["optimizer"])
    print(f"resumed after epoch {saved['epoch']}", flush=True)
    return saved["epoch"]


def save_checkpoint(path: Path, epoch: int, model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
    if not path.parent.is_dir():
        return
    # Under another name first: an attempt may be cut short at any moment, this one too.
    half = path.with_suffix(".part")
    torch.save({"epoch": epoch, "model": model.state_dict(), "optimizer": optimizer.state_dict()}, half)
    half.replace(path)


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=12)
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--learning-rate", type=float, default=0.002)
    parser.add_argument("--channels", type=int, default=32)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--model-dir", default=os.environ.get("SM_MODEL_DIR", "model"))
    parser.add_argument("--checkpoint-dir", default="/opt/ml/checkpoints")
    return parser.parse_args()


if __name__ == "__main__":
    main()
