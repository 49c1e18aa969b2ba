"""Evaluates a trained model.tar.gz on the held-back digits: `evaluate.py model.tar.gz`.

Exits with 1 if the accuracy is below 95 %.
"""

import os
import sys
import tarfile
import tempfile
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "0")  # the same numbers on every CPU

import keras
from digits import split

GOOD_ENOUGH = 0.95


def main() -> None:
    if len(sys.argv) != 2:
        sys.exit("usage: evaluate.py model.tar.gz")
    model = load(Path(sys.argv[1]))
    _, images, _, labels = split()
    accuracy = float((model.predict(images, verbose=0).argmax(axis=1) == labels).mean())
    print(f"accuracy on {len(labels)} held-back digits: {accuracy:.3f}")
    sys.exit(0 if accuracy >= GOOD_ENOUGH else 1)


def load(archive: Path) -> keras.Model:
    with tarfile.open(archive) as tar, tempfile.TemporaryDirectory() as folder:
        saved = tar.extractfile("model.keras")
        path = Path(folder, "model.keras")
        path.write_bytes(saved.read())
        return keras.models.load_model(path)


if __name__ == "__main__":
    main()
