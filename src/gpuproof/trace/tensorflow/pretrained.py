"""Pretrained weights of `keras.applications`: they change neither memory nor time, so that none are downloaded or read."""

# pyright: reportPrivateUsage=false, reportAttributeAccessIssue=false

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import keras
from keras.src.utils import file_utils

from gpuproof.trace.notes import Notes

_MODELS = "keras.src.applications."
_OTHERS = (".json",)
"""Ends of files that are no weights: the names of ImageNet's classes."""


class _Weights(str):
    """The path of weights that are not there."""

    __slots__ = ()


def leave_out_pretrained_weights(notes: Notes) -> None:
    """Let models keep their first weights from now on, where they would load those that Keras publishes.

    Args:
        notes: takes which these are.
    """
    download: Callable[..., Any] = file_utils.get_file
    load: Callable[..., Any] = keras.Model.load_weights

    def get_file(fname: Any = None, *args: Any, **kwargs: Any) -> Any:
        caller = sys._getframe(1).f_globals.get("__name__", "")
        if caller.startswith(_MODELS) and not str(fname).endswith(_OTHERS):
            return _Weights(fname)
        return download(fname, *args, **kwargs)

    def load_weights(model: Any, filepath: Any, *args: Any, **kwargs: Any) -> Any:
        if not isinstance(filepath, _Weights):
            return load(model, filepath, *args, **kwargs)
        notes.add("weights", f"The pretrained weights {filepath} were not loaded.")
        return None

    file_utils.get_file = get_file
    keras.Model.load_weights = load_weights
