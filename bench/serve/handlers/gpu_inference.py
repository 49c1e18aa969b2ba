"""The handler of `bench/serve_gpu.py`, written as for AWS's container: the model is moved to the GPU if there is one."""
# pyright: basic, reportMissingImports=false, reportAttributeAccessIssue=false

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import deep_models
import torch

batch = True


def model_fn(model_dir: str) -> Any:
    """The model that `bench.json` describes, in evaluation mode."""
    described = json.loads((Path(model_dir) / "bench.json").read_text())
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    return deep_models.build(described["model"], described["size"]).to(device)


def predict_fn(data: torch.Tensor, model: Any) -> torch.Tensor:
    """Predictions for a batch of one or more items, which are on the model's device."""
    with torch.inference_mode():
        return model(data)
