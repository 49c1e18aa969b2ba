"""Finds models that a script saved in its working directory instead of `/opt/ml/model`, where they would be lost."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path

Snapshot = Mapping[str, tuple[int, int]]
"""Files that look like models, by name relative to the folder: size in bytes and modification time in nanoseconds."""

# Suffixes that Keras, PyTorch, TensorFlow, scikit-learn, Hugging Face and ONNX write models with.
_MODEL = re.compile(
    r"\.(h5|hdf5|keras|pt|pt2|pth|ckpt|safetensors|onnx|pb|joblib|pkl|tflite|gguf|bin)$|\.data-\d{5}-of-\d{5}$"
)
_SMALLEST_BIN = 1_000_000
"""A smaller .bin may be anything; a larger one is probably like the `pytorch_model.bin` of transformers."""
_SKIPPED = {".git", "__pycache__", "node_modules", "site-packages"}


def snapshot(folder: Path) -> Snapshot:
    """Return the files in a folder that look like models, to compare with those at the end of the run."""
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


def stray_models(folder: Path, before: Snapshot) -> list[str]:
    """Return what looks like a model and is new or changed since the snapshot.

    Returns:
        Sorted names relative to the folder; a SavedModel is its folder's name with a trailing slash.
    """
    new = {Path(name) for name, status in snapshot(folder).items() if before.get(name) != status}
    saved_models = {path.parent for path in new if path.name == "saved_model.pb"}
    names = [f"{path}/" for path in saved_models]
    names += [str(path) for path in new if not saved_models & {*path.parents}]
    return sorted(names)
