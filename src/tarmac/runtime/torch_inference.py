"""Loads a PyTorch model that `tarmac.runtime.save` has written. A copy lies beside the model as `code/inference.py`."""

from __future__ import annotations

import importlib
import json
from functools import reduce
from pathlib import Path
from typing import Any


def model_fn(model_dir: str, device: str | None = None) -> Any:
    """The model with its weights, in evaluation mode, as SageMaker's containers ask for it.

    Args:
        model_dir: the folder with `model.json`.
        device: where to put it; by itself the GPU, if there is one.
    """
    torch: Any = importlib.import_module("torch")
    folder = Path(model_dir)
    about = json.loads((folder / "model.json").read_text(encoding="utf-8"))
    chosen = device or ("cuda" if torch.cuda.is_available() else "cpu")
    if "class" in about:
        model = _class(about["class"])(**about["arguments"])
        weights = torch.load(folder / about["weights"], map_location="cpu", weights_only=True)
        model.load_state_dict(weights)
        return model.to(chosen).eval()
    if "exported" in about:
        return torch.export.load(folder / about["exported"]).module().to(chosen)
    raise RuntimeError(
        f"{folder / 'model.json'} names no class: build the model yourself and give it {about['weights']}"
    )


def _class(name: str) -> Any:
    module, _, path = name.partition(":")
    return reduce(getattr, path.split("."), importlib.import_module(module))
