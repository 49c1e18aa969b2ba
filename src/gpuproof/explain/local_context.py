"""Reads what explanations need to know about this machine. Never raises: unknown values are `None`."""

from __future__ import annotations

import os
import re
from pathlib import Path

from gpuproof.catalogue import Catalogue
from gpuproof.explain.context import DEFAULT_REGION, Context

_MODULE_VERSION = re.compile(r"^NVRM version:.*?\s(\d+\.[\d.]*\d)\s", re.M)


def local_context(catalogue: Catalogue | None = None, root: Path = Path("/")) -> Context:
    """The context of a log that was written on this machine.

    Args:
        root: the folder that holds `/proc` and `/dev`; NVML is queried only if it is `/`.
    """
    module = _text(root / "proc/driver/nvidia/version")
    gpus, memory = _gpus() if root == Path("/") else (None, None)
    return Context(
        catalogue=catalogue or Catalogue.load(),
        machine="this machine",
        driver=match[1] if module and (match := _MODULE_VERSION.search(module)) else None,
        gpus=gpus if module or gpus else (),
        gpu_memory=memory,
        host_memory=_host_memory(root),
        shared_memory=_file_system_size(root / "dev/shm"),
        open_files=_limit("RLIMIT_NOFILE"),
        address_space=_limit("RLIMIT_AS"),
        region=_region(),
    )


def unknown_context(catalogue: Catalogue | None = None) -> Context:
    """The context of a log that was written on an unknown machine."""
    return Context(catalogue=catalogue or Catalogue.load(), region=_region())


def _region() -> str:
    return os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION") or DEFAULT_REGION


def _gpus() -> tuple[tuple[str, ...] | None, int | None]:
    from gpuproof.gpu.nvml import Nvml, NvmlUnavailable, library_present

    if not library_present():
        return (), None
    try:
        with Nvml.open() as nvml:
            found = nvml.gpus()
    except NvmlUnavailable:
        return None, None
    memory = [gpu.memory_total for gpu in found if gpu.memory_total]
    return tuple(gpu.name or "a GPU" for gpu in found), min(memory, default=None)


def _host_memory(root: Path) -> int | None:
    found = re.search(r"^MemTotal:\s+(\d+) kB", _text(root / "proc/meminfo") or "", re.M)
    return int(found[1]) * 1024 if found else None


def _file_system_size(folder: Path) -> int | None:
    try:
        status = os.statvfs(folder)
    except OSError:
        return None
    return status.f_blocks * status.f_frsize or None


def _limit(name: str) -> int | None:
    """A limit of this shell's processes, such as `RLIMIT_NOFILE`."""
    import resource

    soft = resource.getrlimit(getattr(resource, name))[0]
    return None if soft == resource.RLIM_INFINITY else soft


def _text(path: Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
