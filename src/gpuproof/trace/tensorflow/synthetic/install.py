"""Replaces the functions by which scripts load data."""

from __future__ import annotations

from collections.abc import Callable

from gpuproof.trace.imports import ImportActions
from gpuproof.trace.tensorflow.synthetic.image_folders import replace_missing_folders
from gpuproof.trace.tensorflow.synthetic.keras_datasets import replace_keras_datasets
from gpuproof.trace.tensorflow.synthetic.tfds import TensorFlowDatasets


def install(note: Callable[[str], None]) -> None:
    """Replace data that is not on this machine from now on.

    Args:
        note: takes what was replaced, and by what.
    """
    replace_keras_datasets(note)
    replace_missing_folders(note)
    imports = ImportActions()
    imports.install()
    TensorFlowDatasets(note, imports).install()
