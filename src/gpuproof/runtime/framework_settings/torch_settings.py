"""PyTorch's settings: what it reads at its import, and what it still takes after."""

from __future__ import annotations

import os
from collections.abc import Iterator
from importlib import metadata
from typing import Any

from gpuproof.runtime.call_site import caller, imported_at, place
from gpuproof.runtime.framework_settings.setting import Outcome, Wishes, put_variable
from gpuproof.util.versions import release

ASYNC = "async"
EXPANDABLE = "expandable"
_ALLOCATORS = {ASYNC: "backend:cudaMallocAsync", EXPANDABLE: "expandable_segments:True"}
# The new name is there from 2.8 on, but CUDA's allocator does not heed it before 2.12:
# https://github.com/pytorch/pytorch/issues/183387 (read 2026-11-21)
_NEW_NAME_SINCE = (2, 12)


def before_import(wishes: Wishes) -> Iterator[Outcome]:
    """What PyTorch reads from the environment."""
    if wishes.threads is not None:
        yield put_variable("OMP_NUM_THREADS", str(wishes.threads))
    if wishes.allocator is not None:
        yield put_variable(allocator_variable(_version()), _allocator(wishes.allocator))


def after_import(torch: Any, wishes: Wishes) -> Iterator[Outcome]:
    """What PyTorch takes once it is imported."""
    if wishes.threads is not None:
        torch.set_num_threads(wishes.threads)
        yield Outcome("threads of PyTorch", str(wishes.threads))
    if wishes.allocator is not None:
        yield _set_allocator(torch, _allocator(wishes.allocator))
    if wishes.seed is not None:
        torch.manual_seed(wishes.seed)
        yield Outcome("seed of PyTorch", str(wishes.seed))


def cuda_started(torch: Any) -> bool:
    """Whether PyTorch has begun to use a GPU."""
    return bool(torch.cuda.is_initialized())


def allocator_variable(version: tuple[int, ...]) -> str:
    """The variable that CUDA's allocator heeds in a version of PyTorch."""
    return "PYTORCH_ALLOC_CONF" if version >= _NEW_NAME_SINCE else "PYTORCH_CUDA_ALLOC_CONF"


def _set_allocator(torch: Any, value: str) -> Outcome:
    name = allocator_variable(release(torch.__version__))
    if os.environ.get(name) == value:
        return Outcome(name, value)
    file, line = caller()
    here = place(file, line)
    if cuda_started(torch):
        return Outcome(
            name,
            value,
            f"PyTorch had already used the GPU when {here} asked for it: move setup() above that",
        )
    if "backend:" in value:
        where = imported_at("torch")
        above = f" in {where}" if where else ""
        return Outcome(
            name,
            value,
            f"it is read when PyTorch is imported: move setup() ({here}) above 'import torch'{above}",
        )
    return put_variable(name, value)


def _allocator(wanted: str) -> str:
    return _ALLOCATORS.get(wanted, wanted)


def _version() -> tuple[int, ...]:
    try:
        return release(metadata.version("torch"))
    except metadata.PackageNotFoundError:
        return _NEW_NAME_SINCE
