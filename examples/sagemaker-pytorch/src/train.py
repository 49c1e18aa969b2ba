"""Training job: a small convolutional network on what prepare.py wrote."""

import argparse
import os
from pathlib import Path

import numpy as np
import torch
from network import build
from torch import nn

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")


def main() -> None:
    arguments = parse_arguments()
    torch.manual_seed(0)
    print(f"PyTorch {torch.__version__} trains on {device}", flush=True)
    # So little data fits on the GPU: copied once, not batch by batch.
    images, labels = load("train.npz")
    test_images, test_labels = load("test.npz")
    model = build().to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=arguments.learning_rate)
    for epoch in range(1, arguments.epochs + 1):
        model.train()
        for batch in torch.randperm(len(images), device=device).split(arguments.batch_size):
            loss = nn.functional.cross_entropy(model(images[batch]), labels[batch])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        model.eval()
        with torch.no_grad():
            accuracy = (model(test_images).argmax(1) == test_labels).float().mean().item()
        print(f"epoch {epoch}/{arguments.epochs} val_accuracy {accuracy:.4f}", flush=True)
    # SageMaker uploads this folder, and nothing else. Weights load with every version of PyTorch.
    torch.save(model.state_dict(), Path(os.environ["SM_MODEL_DIR"], "model.pt"))


def load(name: str) -> tuple[torch.Tensor, torch.Tensor]:
    """Images of shape (count, 1, 8, 8) from 0 to 1, and their digits, from the channel `training`."""
    with np.load(Path(os.environ["SM_CHANNEL_TRAINING"], name)) as arrays:
        return torch.from_numpy(arrays["images"]).to(device), torch.from_numpy(arrays["labels"]).to(device)


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--learning-rate", type=float, default=0.002)
    return parser.parse_args()


if __name__ == "__main__":
    main()
