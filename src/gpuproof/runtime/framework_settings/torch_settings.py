"""PyTorch's settings: environment variables before its import, its API afterwards."""

from __future__ import annotations

import os
from collections.abc import Iterator
from importlib import metadata
from typing import Any

from gpuproof.runtime.call_site import caller, find_import, format_location
from gpuproof.runtime.framework_settings.setting import RequestedSettings, Setting, set_variable
from gpuproof.util.versions import version_key

ASYNC = "async"
EXPANDABLE = "expandable"
_ALLOCATORS = {ASYNC: "backend:cudaMallocAsync", EXPANDABLE: "expandable_segments:True"}
# The new name exists since 2.8, but CUDA's allocator ignores it before 2.12:
# https://github.com/pytorch/pytorch/issues/183387 (read 2026-11-21)
_ALLOC_CONF_SINCE = (2, 12)


def before_import(requested: RequestedSettings) -> Iterator[Setting]:
    """Set the variables that PyTorch reads."""
    if requested.threads is not None:
        yield set_variable("OMP_NUM_THREADS", str(requested.threads))
    if requested.allocator is not None:
        yield set_variable(allocator_variable(_version()), _allocator(requested.allocator))


def after_import(torch: Any, requested: RequestedSettings) -> Iterator[Setting]:
    """Apply the settings that PyTorch accepts after its import."""
    if requested.threads is not None:
        torch.set_num_threads(requested.threads)
        yield Setting("threads of PyTorch", str(requested.threads))
    if requested.allocator is not None:
        yield _set_allocator(torch, _allocator(requested.allocator))
    if requested.seed is not None:
        torch.manual_seed(requested.seed)
        yield Setting("seed of PyTorch", str(requested.seed))


def cuda_started(torch: Any) -> bool:
    """Whether PyTorch has initialized CUDA."""
    return bool(torch.cuda.is_initialized())


def allocator_variable(version: tuple[int, ...]) -> str:
    """Name of the variable that configures CUDA's allocator in a version of PyTorch."""
    return "PYTORCH_ALLOC_CONF" if version >= _ALLOC_CONF_SINCE else "PYTORCH_CUDA_ALLOC_CONF"


def _set_allocator(torch: Any, value: str) -> Setting:
    name = allocator_variable(version_key(torch.__version__))
    if os.environ.get(name) == value:
        return Setting(name, value)
    file, line = caller()
    here = format_location(file, line)
    if cuda_started(torch):
        return Setting(
            name,
            value,
            f"PyTorch had already used the GPU before setup() in {here}: move setup() above its first use",
        )
    if "backend:" in value:
        where = find_import("torch")
        above = f" in {where}" if where else ""
        return Setting(
            name,
            value,
            f"PyTorch reads it at its import: move setup() ({here}) above 'import torch'{above}",
        )
    return set_variable(name, value)


def _allocator(wanted: str) -> str:
    return _ALLOCATORS.get(wanted, wanted)


def _version() -> tuple[int, ...]:
    try:
        return version_key(metadata.version("torch"))
    except metadata.PackageNotFoundError:
        return _ALLOC_CONF_SINCE
