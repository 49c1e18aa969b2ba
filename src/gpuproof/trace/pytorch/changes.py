"""Changes to a script that would save memory, made while it is traced: mixed precision, activation checkpointing."""

# pyright: reportPrivateUsage=false, reportPrivateImportUsage=false, reportAttributeAccessIssue=false

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
import torch.utils.checkpoint
from torch.utils._pytree import tree_map

_LEAST_BLOCKS = 2


def apply_changes(names: str) -> None:
    """Change what the script's models do when they are called, from now on.

    Args:
        names: separated by commas. `amp` runs them under autocast to float16 and returns float32, as Accelerate does; `checkpointing` recomputes the
            repeated blocks of `nn.ModuleList` and `nn.Sequential` in the backward pass.
    """
    for name in names.split(","):
        _apply(name)


def _apply(name: str) -> None:
    call = torch.nn.Module.__call__
    depth = 0
    seen: set[int] = set()

    def changed(self: Any, *args: Any, **kwargs: Any) -> Any:
        nonlocal depth
        # What the backward pass recomputes is within a call, too.
        if depth or torch._C._current_graph_task_id() != -1:
            return call(self, *args, **kwargs)
        depth += 1
        try:
            if name == "checkpointing":
                if id(self) not in seen:
                    seen.add(id(self))
                    _checkpoint_blocks(self)
                return call(self, *args, **kwargs)
            with torch.autocast("cuda", dtype=torch.float16):
                output = call(self, *args, **kwargs)
            return tree_map(_as_float32, output)
        finally:
            depth -= 1

    torch.nn.Module.__call__ = changed  # type: ignore[method-assign]


def _as_float32(value: Any) -> Any:
    is_half = isinstance(value, torch.Tensor) and value.dtype == torch.float16
    return value.float() if is_half else value


def _checkpoint_blocks(model: Any) -> None:
    for block in _blocks(model):
        block.forward = _recomputed(block.forward)


def _recomputed(forward: Any) -> Any:
    def run(*args: Any, **kwargs: Any) -> Any:
        if not torch.is_grad_enabled():
            return forward(*args, **kwargs)
        # Without the state of the random numbers, which a GPU that is not there lacks.
        return torch.utils.checkpoint.checkpoint(
            forward, *args, use_reentrant=False, preserve_rng_state=False, **kwargs
        )

    return run


def _blocks(module: Any) -> Iterator[Any]:
    """The repeated modules, the outermost ones."""
    for child in module.children():
        if isinstance(child, (torch.nn.ModuleList, torch.nn.Sequential)):
            kinds = {type(layer) for layer in child}
            composed = all(any(True for _ in layer.children()) for layer in child)
            if len(child) >= _LEAST_BLOCKS and len(kinds) == 1 and composed:
                yield from child
                continue
        yield from _blocks(child)
