"""Trains a small convolutional network on handwritten digits, with PyTorch."""

import argparse
from collections.abc import Iterable

import torch
from digits import split
from network import DigitNet
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import gpuproof.runtime as rt


def main() -> None:
    arguments = parse_arguments()
    rt.setup(seed=arguments.seed)
    # Without allow_cpu, a machine without a usable GPU is an error; this example also runs on a laptop.
    device = rt.device(allow_cpu=True)
    print(f"PyTorch {torch.__version__} trains on {device}", flush=True)

    train_images, test_images, train_labels, test_labels = map(torch.from_numpy, split())
    loader = DataLoader(TensorDataset(train_images, train_labels), arguments.batch_size, shuffle=True)
    settings = {"channels": arguments.channels, "dropout": 0.3}
    model = DigitNet(**settings).to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=arguments.learning_rate)

    # Resumes an interrupted attempt.
    checkpoint = rt.checkpoint(model=model, optimizer=optimizer)
    for epoch in checkpoint.epochs(arguments.epochs):
        loss = train_one_epoch(model, checkpoint.steps(loader), optimizer, device)
        accuracy = accuracy_of(model, test_images.to(device), test_labels.to(device))
        print(f"epoch {epoch + 1}/{arguments.epochs} loss {loss:.4f} val_accuracy {accuracy:.4f}", flush=True)

    print(f"saved to {rt.save(model, arguments=settings)}")
    checkpoint.clear()


def train_one_epoch(
    model: nn.Module, batches: Iterable, optimizer: torch.optim.Optimizer, device: torch.device
) -> float:
    model.train()
    total, count = 0.0, 0
    for images, labels in batches:
        loss = nn.functional.cross_entropy(model(images.to(device)), labels.to(device))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total, count = total + loss.item() * len(labels), count + len(labels)
    return total / max(count, 1)


@torch.no_grad()
def accuracy_of(model: nn.Module, images: torch.Tensor, labels: torch.Tensor) -> float:
    model.eval()
    return (model(images).argmax(1) == labels).float().mean().item()


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=12)
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--learning-rate", type=float, default=0.002)
    parser.add_argument("--channels", type=int, default=32)
    parser.add_argument("--seed", type=int, default=0)
    return parser.parse_args()


if __name__ == "__main__":
    main()
