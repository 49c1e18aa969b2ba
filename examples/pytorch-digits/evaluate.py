"""Evaluates a trained model.tar.gz on the held-back digits: `evaluate.py model.tar.gz`.

Exits with 1 if the accuracy is below 95 %.
"""

import sys
import tarfile
import tempfile
from pathlib import Path

import torch
from digits import split

import gpuproof.runtime as rt

GOOD_ENOUGH = 0.95


def main() -> None:
    if len(sys.argv) != 2:
        sys.exit("usage: evaluate.py model.tar.gz")
    model = load(Path(sys.argv[1]))
    _, images, _, labels = map(torch.from_numpy, split())
    with torch.no_grad():
        accuracy = (model(images).argmax(1) == labels).float().mean().item()
    print(f"accuracy on {len(labels)} held-back digits: {accuracy:.3f}")
    sys.exit(0 if accuracy >= GOOD_ENOUGH else 1)


def load(archive: Path) -> torch.nn.Module:
    with tarfile.open(archive) as tar, tempfile.TemporaryDirectory() as folder:
        tar.extractall(folder, filter="data")
        return rt.load(folder)


if __name__ == "__main__":
    main()
