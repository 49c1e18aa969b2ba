"""Loads a PyTorch model that `gpuproof.runtime.save` has written. A copy lies beside the model as `code/inference.py`."""

from __future__ import annotations

import importlib
import json
from functools import reduce
from pathlib import Path
from typing import Any


def model_fn(model_dir: str) -> Any:
    """The model with its weights, in evaluation mode, on the GPU if there is one, as SageMaker's containers ask for it.

    Args:
        model_dir: the folder with `model.json`.
    """
    # One parameter and no more: AWS's toolkit passes its context as the second.
    torch: Any = importlib.import_module("torch")
    return load_on("cuda" if torch.cuda.is_available() else "cpu", Path(model_dir))


def load_on(device: str, folder: Path) -> Any:
    """The model with its weights, in evaluation mode, on a device of PyTorch's."""
    torch: Any = importlib.import_module("torch")
    about = json.loads((folder / "model.json").read_text(encoding="utf-8"))
    if "class" in about:
        model = _class(about["class"])(**about["arguments"])
        weights = torch.load(folder / about["weights"], map_location="cpu", weights_only=True)
        model.load_state_dict(weights)
        return model.to(device).eval()
    if "exported" in about:
        return torch.export.load(folder / about["exported"]).module().to(device)
    raise RuntimeError(
        f"{folder / 'model.json'} names no class: build the model yourself and give it {about['weights']}"
    )


def _class(name: str) -> Any:
    module, _, path = name.partition(":")
    return reduce(getattr, path.split("."), importlib.import_module(module))
