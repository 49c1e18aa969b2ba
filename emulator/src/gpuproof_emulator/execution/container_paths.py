"""Paths in a container that a request names, and where they are on an instance's disk."""

from __future__ import annotations

from pathlib import Path, PurePosixPath

ROOT = "/opt/ml"
PROCESSING_ROOT = "/opt/ml/processing"


def is_below(path: str, root: str) -> bool:
    """Whether a path in a container is a folder or in it, and cannot leave it: `..` is refused wherever it leads."""
    parts = PurePosixPath(path)
    return parts.is_relative_to(root) and ".." not in parts.parts and "\0" not in path


def host_path(ml: Path, path: str) -> Path:
    """Where a path below `/opt/ml` is on an instance's disk.

    Args:
        ml: the folder that the container sees as `/opt/ml`.

    Raises:
        ValueError: the path is not below `/opt/ml`.
    """
    if not is_below(path, ROOT):
        raise ValueError(f"{path} is not below {ROOT}")
    return ml / PurePosixPath(path).relative_to(ROOT)
