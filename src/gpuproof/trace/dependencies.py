"""The files that a traced script has read and the folders that it has listed: if none of them changes, neither does its trace."""

from __future__ import annotations

import os
import site
import sys
import sysconfig
from pathlib import Path
from typing import Any

from gpuproof.trace.notes import is_users

_MOST = 5000
_SYSTEM = ("/proc/", "/sys/", "/dev/", "/etc/", "/usr/")
_BYTECODE = "__pycache__"
_READING = "r"


class Dependencies:
    """What was read so far.

    Args:
        scratch: folder of the script's own files; None if there is none.
    """

    def __init__(self, scratch: str | None) -> None:
        self._scratch = None if scratch is None else os.path.realpath(scratch) + os.sep
        self._files: dict[str, None] = {}
        self._folders: dict[str, None] = {}

    def watch(self) -> None:
        """Look at what this process opens and lists from now on.

        Source: https://docs.python.org/3/library/audit_events.html.
        """

        def audit(event: str, arguments: tuple[Any, ...]) -> None:
            if event == "open":
                path, mode, flags = arguments
                if mode is None and not (flags or 0) & (os.O_WRONLY | os.O_RDWR):
                    mode = _READING
                if isinstance(mode, str) and mode.startswith(_READING):
                    self._add(self._files, path)
            elif event in ("os.listdir", "os.scandir"):
                self._add(self._folders, arguments[0] if arguments[0] is not None else ".")

        sys.addaudithook(audit)

    def found(self) -> tuple[list[str], list[str]] | None:
        """Absolute paths of files and folders, those of installed packages among the folders; None if there are too many."""
        for module in list(sys.modules.values()):
            self._add(
                self._files, getattr(module, "__dict__", {}).get("__file__")
            )  # its __getattr__ may import
        if len(self._files) > _MOST or len(self._folders) > _MOST:
            return None
        packages = {
            *site.getsitepackages(),
            *(sysconfig.get_paths()[name] for name in ("purelib", "platlib")),
        }
        folders = {*self._folders, *packages, *(str(Path(path).parent) for path in self._files)}
        return sorted(self._files), sorted(folders)

    def _add(self, found: dict[str, None], path: Any) -> None:
        if isinstance(path, bytes):
            path = os.fsdecode(path)
        if isinstance(path, os.PathLike):
            path = os.fspath(path)  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
        if not isinstance(path, str) or len(found) > _MOST:
            return
        absolute = os.path.abspath(path)  # noqa: PTH100 - links are kept
        if (
            absolute in found
            or absolute.startswith(_SYSTEM)
            or _BYTECODE in absolute
            or not is_users(absolute)
        ):
            return
        if self._scratch is None or not os.path.realpath(absolute).startswith(self._scratch):
            found[absolute] = None
