"""Trains without a framework, and leaves a model that `gpuproof serve` can serve."""

import argparse
from pathlib import Path

parser = argparse.ArgumentParser()
parser.add_argument("--epochs", type=int, default=3)
for epoch in range(parser.parse_args().epochs):
    print(f"epoch {epoch}", flush=True)
model = Path("/opt/ml/model/code")
model.mkdir(parents=True, exist_ok=True)
(model / "inference.py").write_text(
    "import torch\n\ndef model_fn(folder): return sum\n"
    "def predict_fn(data, model): return [model(row) for row in data]\n"
)
