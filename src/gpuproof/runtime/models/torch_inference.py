"""Loads a PyTorch model that `gpuproof.runtime.save` has written; copied into the artifact as `code/inference.py`."""

from __future__ import annotations

import importlib
import json
from functools import reduce
from pathlib import Path
from typing import Any


def model_fn(model_dir: str) -> Any:
    """Load the model, in evaluation mode, on the GPU if there is one; SageMaker's containers call it.

    Args:
        model_dir: the folder with `model.json`.
    """
    # Only one parameter: AWS's inference toolkit would pass its context as the second.
    torch: Any = importlib.import_module("torch")
    return load_on("cuda" if torch.cuda.is_available() else "cpu", Path(model_dir))


def load_on(device: str, folder: Path) -> Any:
    """Load the model, in evaluation mode, on a PyTorch device."""
    torch: Any = importlib.import_module("torch")
    manifest = json.loads((folder / "model.json").read_text(encoding="utf-8"))
    if "class" in manifest:
        model = _class(manifest["class"])(**manifest["arguments"])
        weights = torch.load(folder / manifest["weights"], map_location="cpu", weights_only=True)
        model.load_state_dict(weights)
        return model.to(device).eval()
    if "exported" in manifest:
        return torch.export.load(folder / manifest["exported"]).module().to(device)
    raise RuntimeError(
        f"{folder / 'model.json'} has no class: create the model yourself and load {manifest['weights']} into it"
    )


def _class(name: str) -> Any:
    module, _, path = name.partition(":")
    return reduce(getattr, path.split("."), importlib.import_module(module))
