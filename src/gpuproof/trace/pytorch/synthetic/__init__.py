"""Data sets of torchvision that are not on this machine: zeros of the published sizes, and black images."""

from __future__ import annotations

import importlib
from collections.abc import Callable

from gpuproof.trace.pytorch.synthetic.image_folders import replace_missing_folders
from gpuproof.trace.pytorch.synthetic.vision_datasets import replace_known

__all__ = ["install"]


def install(note: Callable[[str], None]) -> None:
    """Replace them from now on; torchvision must be installed.

    Args:
        note: takes which data sets were.
    """
    datasets = importlib.import_module("torchvision.datasets")
    replace_known(datasets, note)
    replace_missing_folders(datasets, note)
