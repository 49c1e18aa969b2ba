"""Free space on the file systems that jobs write to implicitly: temporary files, caches, the root."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from gpuproof.doctor.check import Check, Layer
from gpuproof.doctor.machine import Machine
from gpuproof.findings import Finding, Severity
from gpuproof.util.humanize import format_bytes

_GIB = 1 << 30
_LITTLE = 5 * _GIB
_NEARLY_NOTHING = _GIB
_LITTLE_FOR_TEMPORARY = _GIB
_FEW_FILES = 0.01

_CACHES = (
    ("Hugging Face", ("HF_HOME",), ".cache/huggingface"),
    ("PyTorch Hub", ("TORCH_HOME",), ".cache/torch"),
    ("Keras", ("KERAS_HOME",), ".keras"),
    ("CUDA's compiled kernels", ("CUDA_CACHE_PATH",), ".nv/ComputeCache"),
    ("Triton's compiled kernels", ("TRITON_CACHE_DIR",), ".triton/cache"),
)
"""Owner of a cache, the variables that move it, and its default below the home directory."""


@dataclass(frozen=True)
class Folder:
    """A folder that jobs write to implicitly.

    Args:
        uses: what it is used for; several if they share a file system.
        free: bytes available to a normal user.
        total: size of its file system in bytes.
        free_inodes: share of the inodes that are free.
        writable: whether this user can write to it.
    """

    uses: tuple[str, ...]
    path: str
    free: int
    total: int
    free_inodes: float = 1.0
    writable: bool = True
    set_by: str | None = None


@dataclass(frozen=True)
class Reading:
    """The folders, one per file system, and the variables that name missing folders."""

    folders: tuple[Folder, ...] = field(default=())
    missing: tuple[tuple[str, str], ...] = ()
    """Name and value of each variable whose folder does not exist."""


def read(machine: Machine) -> Reading | None:
    """Read the free space."""
    environment = machine.environment
    home = environment.get("HOME") or "/root"
    wanted: list[tuple[str, str, str | None]] = [("the system", "/", None)]
    temporary = next((name for name in ("TMPDIR", "TEMP", "TMP") if environment.get(name)), None)
    wanted.append(("temporary files", environment[temporary] if temporary else "/tmp", temporary))  # noqa: S108
    for use, variables, below_home in _CACHES:
        name = next((variable for variable in variables if environment.get(variable)), None)
        wanted.append((f"the cache of {use}", environment[name] if name else f"{home}/{below_home}", name))
    missing = tuple(
        (name, path)
        for _, path, name in wanted
        if name is not None and name == temporary and not machine.path(path).is_dir()
    )
    # A copy of another machine's folders does not show its free space.
    folders = _by_file_system(machine, wanted) if machine.root == Path("/") else ()
    return Reading(folders, missing)


def evaluate(reading: Reading) -> Iterator[Finding]:
    """D673 little free space, D674 a missing temporary folder, D675 a folder that is not writable."""
    for name, path in reading.missing:
        yield Finding(
            "D674",
            Severity.ERROR,
            f"{name} is {path}, which does not exist: many programs fail as soon as they need a temporary file.",
            (f"{name}={path}",),
            f"mkdir -p {path}; or unset {name}",
        )
    for folder in reading.folders:
        if not folder.writable:
            by = f" ({folder.set_by})" if folder.set_by else ""
            yield Finding(
                "D675",
                Severity.WARNING,
                f"{folder.path}{by}, for {_uses(folder)}, is not writable: downloads and compiled kernels fail or "
                "are repeated each time.",
                (f"{folder.path}: not writable",),
                f"export {folder.set_by}=FOLDER with a folder that you can write to"
                if folder.set_by
                else "Set HOME to a folder that you can write to.",
            )
        elif _is_short(folder):
            yield _short(folder)


def _short(folder: Folder) -> Finding:
    if folder.free_inodes < _FEW_FILES:
        what = "has no inodes left"
    else:
        what = f"has {format_bytes(folder.free)} left of {format_bytes(folder.total)}"
    return Finding(
        "D673",
        Severity.ERROR if folder.free < _NEARLY_NOTHING // 4 or folder.free_inodes == 0 else Severity.WARNING,
        f"{folder.path}, for {_uses(folder)}, {what}: writing packages, model files and checkpoints fails with `No space "
        "left on device`.",
        (f"{folder.path}: {format_bytes(folder.free)} free of {format_bytes(folder.total)}",),
        "Delete unneeded files (du -xh / | sort -h | tail), enlarge the volume, or move caches to a larger one with "
        "HF_HOME, TORCH_HOME and TMPDIR (on instances with local disks: /opt/dlami/nvme).",
    )


def _is_short(folder: Folder) -> bool:
    if folder.free_inodes < _FEW_FILES:
        return True
    temporary_only = folder.uses == ("temporary files",)
    return folder.free < (_LITTLE_FOR_TEMPORARY if temporary_only else _LITTLE)


def _uses(folder: Folder) -> str:
    *first, last = folder.uses
    return f"{', '.join(first)} and {last}" if first else last


def _by_file_system(machine: Machine, wanted: list[tuple[str, str, str | None]]) -> tuple[Folder, ...]:
    """One entry per file system, and one per folder that is not writable."""
    found: dict[int, Folder] = {}
    locked: list[Folder] = []
    for use, path, name in wanted:
        existing = _existing_folder(machine.path(path), machine.root)
        try:
            room, device = os.statvfs(existing), existing.stat().st_dev
        except OSError:
            continue
        writable = use == "the system" or os.access(existing, os.W_OK)
        folder = Folder(
            (use,),
            path,
            room.f_bavail * room.f_frsize,
            room.f_blocks * room.f_frsize,
            room.f_favail / room.f_files if room.f_files else 1.0,
            writable,
            name,
        )
        if not writable:
            locked.append(folder)
            continue
        old = found.get(device)
        found[device] = folder if old is None else _with_use(old, use)
    return (*found.values(), *locked)


def _with_use(folder: Folder, use: str) -> Folder:
    return Folder(
        (*folder.uses, use),
        folder.path,
        folder.free,
        folder.total,
        folder.free_inodes,
        folder.writable,
        folder.set_by,
    )


def _existing_folder(path: Path, root: Path) -> Path:
    """The folder, or its nearest existing parent."""
    while not path.exists() and path != root and path != path.parent:
        path = path.parent
    return path


def summarize(reading: Reading) -> str | None:
    """`80.0 GiB free on /`."""
    return (
        f"{format_bytes(reading.folders[0].free)} free on {reading.folders[0].path}"
        if reading.folders
        else None
    )


CHECK = Check("disk space", Layer.ENVIRONMENT, read, evaluate, summarize=summarize)
