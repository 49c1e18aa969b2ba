"""Models that a script left where nothing keeps them: in its working directory instead of `/opt/ml/model`."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path

Snapshot = Mapping[str, tuple[int, int]]
"""What looks like a model, by name relative to the folder: size in bytes, and time of change in nanoseconds."""

# Endings that Keras, PyTorch, TensorFlow, scikit-learn, Hugging Face and ONNX write models with.
_MODEL = re.compile(
    r"\.(h5|hdf5|keras|pt|pt2|pth|ckpt|safetensors|onnx|pb|joblib|pkl|tflite|gguf|bin)$|\.data-\d{5}-of-\d{5}$"
)
_SMALLEST_BIN = 1_000_000
"""A .bin of less bytes is anything; one of more is what transformers called `pytorch_model.bin`."""
_SKIPPED = {".git", "__pycache__", "node_modules", "site-packages"}


def snapshot(folder: Path) -> Snapshot:
    """What looks like a model in a folder now, to be held against what is there at the end of a run."""
    found: dict[str, tuple[int, int]] = {}
    for parent, folders, files in os.walk(folder):
        folders[:] = [name for name in folders if name not in _SKIPPED]
        for name in files:
            if not _MODEL.search(name.lower()):
                continue
            path = Path(parent, name)
            try:
                status = path.stat()
            except OSError:
                continue
            if not name.lower().endswith(".bin") or status.st_size >= _SMALLEST_BIN:
                found[str(path.relative_to(folder))] = (status.st_size, status.st_mtime_ns)
    return found


def models_left_behind(folder: Path, before: Snapshot) -> list[str]:
    """What looks like a model and has appeared or changed in a folder since the snapshot.

    Returns:
        Names relative to the folder, sorted; of a SavedModel the folder's name alone, with a slash at its end.
    """
    new = {Path(name) for name, status in snapshot(folder).items() if before.get(name) != status}
    saved_models = {path.parent for path in new if path.name == "saved_model.pb"}
    names = [f"{path}/" for path in saved_models]
    names += [str(path) for path in new if not saved_models & {*path.parents}]
    return sorted(names)
