"""Checks of a loss or of gradients: values on the GPU are taken to be finite."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from gpuproof.trace.pytorch.fake_gpu import FakeGpu

_TRUE = "_gpuproof_true"


def watch_checks(gpu: FakeGpu) -> None:
    """Let `isfinite`, and whether it is true of all values, be true as soon as a script asks."""

    def is_finite(original: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            result = original(*args, **kwargs)
            setattr(result, _TRUE, True)
            return result

        return call

    def are_all(original: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            result = original(*args, **kwargs)
            setattr(result, _TRUE, is_true(args[0]))
            return result

        return call

    for owner in (torch, torch.Tensor):
        gpu.answer(owner.isfinite, is_finite(owner.isfinite))
        gpu.answer(owner.all, are_all(owner.all))


def is_true(tensor: Any) -> bool:
    """Whether a tensor is the result of such a check."""
    return getattr(tensor, _TRUE, False)
