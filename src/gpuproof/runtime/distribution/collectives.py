"""Collective operations on PyTorch tensors: `gather`, `reduce`, and printing on the first rank.

Names and results are those of Hugging Face Accelerate (`Accelerator.gather`, `reduce`, `print`):
https://huggingface.co/docs/accelerate/package_reference/accelerator
"""

from __future__ import annotations

import os
import sys
from typing import Any, Callable

from gpuproof.runtime.contract import hosts, is_first_rank
from gpuproof.runtime.imported_frameworks import TENSORFLOW, TORCH, imported_module, load_module
from gpuproof.util.log import print_at_once

REDUCTIONS = ("sum", "mean", "none")


def gather(data: Any) -> Any:
    """Concatenate the tensors of all processes along the first dimension; every process gets the result.

    The processes may have different numbers of rows, as at the end of an epoch. A number, or a tensor without dimensions,
    counts as one row. In a single process, it returns its own rows.

    Args:
        data: a tensor, a number, or a list, tuple or dictionary of them.

    Raises:
        TypeError: something else; `gather_object` takes any object.
        RuntimeError: there are several processes, but `distributed()` was not called.
    """
    return _for_each(data, _gather_tensor, "gather")


def gather_object(item: Any) -> list[Any]:
    """Return the objects of all processes, in the order of their ranks; they are pickled on the way.

    Raises:
        RuntimeError: there are several processes, but `distributed()` was not called.
    """
    group = _group()
    if group is None:
        return [item]
    found: list[Any] = [None] * group.get_world_size()
    group.all_gather_object(found, item)
    return found


def reduce(data: Any, reduction: str = "sum", scale: float = 1.0) -> Any:
    """Combine the tensors of all processes element by element; every process gets the result, `data` is not changed.

    Args:
        data: a tensor of the same shape in each process, a number, or a list, tuple or dictionary of them.
        reduction: `sum`, `mean` or `none`.

    Raises:
        ValueError: an unknown reduction.
        TypeError: `data` is something else.
        RuntimeError: there are several processes, but `distributed()` was not called.
    """
    if reduction not in REDUCTIONS:
        raise ValueError(f"reduction={reduction!r}: use one of {', '.join(REDUCTIONS)}")
    return _for_each(data, lambda tensor: _reduce_tensor(tensor, reduction, scale), "reduce")


def print(*values: object, **options: Any) -> None:  # noqa: A001 - rt.print, as Accelerate's
    """Print on the first rank only; the arguments are those of Python's `print`."""
    if is_first_rank():
        print_at_once(values, **options)


def _gather_tensor(tensor: Any) -> Any:
    torch: Any = load_module(TORCH)
    rows = tensor.reshape(1) if tensor.dim() == 0 else tensor
    group = _group()
    if group is None:
        return rows.clone()
    moved, back = _on_device_of(group, rows.contiguous())
    if moved.dtype is torch.bool:
        moved = moved.to(torch.uint8)  # gloo has no collectives for booleans
    size = group.get_world_size()
    counts = [torch.zeros(1, dtype=torch.int64, device=moved.device) for _ in range(size)]
    group.all_gather(counts, torch.tensor([moved.shape[0]], dtype=torch.int64, device=moved.device))
    lengths = [int(count) for count in counts]
    padded = moved.new_zeros((max(lengths), *moved.shape[1:]))
    padded[: moved.shape[0]] = moved
    parts = [torch.empty_like(padded) for _ in range(size)]
    group.all_gather(parts, padded)
    found = torch.cat([part[:length] for part, length in zip(parts, lengths)])
    return found.to(device=back, dtype=tensor.dtype)


def _reduce_tensor(tensor: Any, reduction: str, scale: float) -> Any:
    result = tensor.clone()
    group = _group()
    size = 1
    if group is not None and reduction != "none":
        size = group.get_world_size()
        result, back = _on_device_of(group, result)
        group.all_reduce(result)
        result = result.to(back)
    if reduction == "mean":
        result = result / size  # of integers, too
    return result if scale == 1.0 else result * scale


def _for_each(data: Any, apply: Callable[[Any], Any], name: str) -> Any:
    """Apply an operation to each tensor of nested lists, tuples and dictionaries."""
    if isinstance(data, dict):
        return {key: _for_each(value, apply, name) for key, value in data.items()}
    if isinstance(data, tuple) and hasattr(data, "_fields"):
        return type(data)(*(_for_each(value, apply, name) for value in data))
    if isinstance(data, (list, tuple)):
        return type(data)(_for_each(value, apply, name) for value in data)
    torch: Any = load_module(TORCH)
    if isinstance(data, (int, float)) and not isinstance(data, bool):
        # float32 would lose digits of large numbers.
        data = torch.tensor(data, dtype=torch.float64 if isinstance(data, float) else torch.int64)
    if isinstance(data, torch.Tensor):
        return apply(data)
    hint = f"{name}_object takes any object" if name == "gather" else "convert it to a tensor"
    if imported_module(TENSORFLOW) is not None and isinstance(data, imported_module(TENSORFLOW).Tensor):
        hint = f"with TensorFlow, use strategy.{name}"
    raise TypeError(f"{name}() takes PyTorch tensors and numbers, not {type(data).__name__}: {hint}")


def _group() -> Any:
    """`torch.distributed` if this process is in a group of several; `None` if it is alone."""
    group: Any = sys.modules.get("torch.distributed")
    if group is not None and group.is_available() and group.is_initialized():
        return group if group.get_world_size() > 1 else None
    expected = os.environ.get("WORLD_SIZE") or str(len(hosts()))
    if expected.isdigit() and int(expected) > 1:
        raise RuntimeError(f"there are {expected} processes: call distributed() before gather() and reduce()")
    return None


def _on_device_of(group: Any, tensor: Any) -> tuple[Any, Any]:
    """The tensor where the group's backend can reach it, and the device that it came from."""
    if group.get_backend() == "nccl" and tensor.device.type != "cuda":
        return tensor.cuda(), tensor.device
    return tensor, tensor.device
