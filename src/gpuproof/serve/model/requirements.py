"""Installs missing packages of a handler's `requirements.txt` into a separate folder, before the handler is imported.

AWS's containers install them at start, too, but into the image's own packages, where they may replace the framework.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import sys
import tempfile
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

from gpuproof.serve.errors import LoadError
from gpuproof.serve.model.discovery import LIB

_PLAIN = re.compile(r"([A-Za-z0-9][A-Za-z0-9._-]*)\s*(?:==\s*([A-Za-z0-9.!+_-]+))?")


def install_missing(
    requirements: Path, folders: Sequence[Path] = (), store: Path | None = None
) -> Path | None:
    """Install the missing packages of a requirements file and return their folder; `None` if none is missing.

    All workers of a machine share the folder: the first one installs, the others wait.

    Args:
        folders: folders of the handler, which may contain packages (`code/lib`).
        store: parent of such folders; in the folder for temporary files if None.

    Raises:
        LoadError: pip fails, or a package would replace the framework.
    """
    if is_satisfied(requirements, folders):
        return None
    # Imported only if something may be missing.
    from gpuproof.agent.requirements.install import install_requirements
    from gpuproof.agent.requirements.pip_plan import RequirementsConflict, RequirementsFailed

    place = (store or _store()) / _digest(requirements)
    place.mkdir(parents=True, exist_ok=True)
    packages, done = place / "packages", place / "done"
    with (place / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not done.is_file():
            try:
                install_requirements(sys.executable, requirements, packages, _Log())
            except (RequirementsConflict, RequirementsFailed) as error:
                raise LoadError(
                    f"{requirements} cannot be installed: {error}",
                    remedy="Correct it, or install the packages yourself and set GPUPROOF_SERVE_INSTALL=off.",
                ) from error
            done.touch()
    return packages if packages.is_dir() else None


def is_satisfied(requirements: Path, folders: Sequence[Path] = ()) -> bool:
    """Whether all packages of a file are installed, or in one of the folders.

    Does not use pip, so that only plain names and `==` are recognized.
    """
    for line in requirements.read_text(encoding="utf-8", errors="surrogateescape").splitlines():
        asked = line.partition(" #")[0].strip()
        if not asked or asked.startswith("#"):
            continue
        match = _PLAIN.fullmatch(asked)
        if match is None or not _is_installed(match[1], match[2], folders):
            return False
    return True


def _is_installed(name: str, version: str | None, folders: Sequence[Path]) -> bool:
    places = [*map(str, folders), *sys.path]
    there = next(
        (distribution.version for distribution in metadata.distributions(name=name, path=places)), None
    )
    if there is None:
        # Copied there without the metadata that pip writes.
        return any(_holds_module(folder, name) for folder in folders if folder.name == LIB)
    # A version with a local label (2.1.0+cu121) satisfies the version without it (PEP 440).
    return version is None or version in (there, there.partition("+")[0])


def _holds_module(folder: Path, name: str) -> bool:
    module = re.sub(r"[-.]", "_", name)
    return any((folder / path).exists() for path in (f"{module}/__init__.py", f"{module}.py"))


def _store() -> Path:
    return Path(tempfile.gettempdir()) / f"gpuproof-serve-packages-{os.getuid()}"


def _digest(requirements: Path) -> str:
    """Folder name for the content, the interpreter and the path of the file, which relative paths in it depend on."""
    key = f"{sys.version}\0{sys.executable}\0{requirements.absolute()}\0".encode()
    return hashlib.sha256(key + requirements.read_bytes()).hexdigest()[:20]


class _Log:
    """Writes pip's output to the server's log."""

    def write(self, data: bytes, /) -> Any:
        return sys.stderr.write(data.decode(errors="replace"))

    def flush(self) -> None:
        sys.stderr.flush()
