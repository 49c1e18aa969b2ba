"""Loads a trained model.tar.gz and tells how many of the held-back digits it reads: `evaluate.py model.tar.gz`.

Leaves with 1 where that is less than 95 %.
"""

import io
import json
import sys
import tarfile
from pathlib import Path

import torch
from digits import split
from network import DigitNet

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


def load(archive: Path) -> DigitNet:
    with tarfile.open(archive) as tar:
        model = DigitNet(**json.load(tar.extractfile("model.json")))
        weights = io.BytesIO(tar.extractfile("model.pth").read())
    model.load_state_dict(torch.load(weights, map_location="cpu", weights_only=True))
    return model.eval()


if __name__ == "__main__":
    main()
