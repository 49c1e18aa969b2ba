"""Builds `gpuproof-agent.pyz`: the agent, the server, the GPU room, the runtime library and pynvml in one file that any Python from 3.9 on can run."""

from __future__ import annotations

import hashlib
import importlib.util
import io
import os
import sys
import zipfile
from collections.abc import Iterable, Iterator
from importlib import machinery
from pathlib import Path

from gpuproof.util.atomic import replacing

ON_BOARD = ("agent", "gpu", "runtime", "serve", "util")
_MAIN = b"""import sys

if sys.argv[1:2] in (["serve"], ["worker"], ["decoder"]):
    from gpuproof.serve.main import main
else:
    from gpuproof.agent.main import main

sys.exit(main())
"""
# Not the installed package's own `__init__.py`, which refers to client modules that are not in the archive.
_PACKAGE = b"from gpuproof.version import __version__ as __version__\n"
# A fixed date keeps the file the same from build to build; zip knows none before 1980.
_EPOCH = (1980, 1, 1, 0, 0, 0)


class _Archive(zipfile.ZipFile):
    """Left as it is where Ctrl-C comes: closing one with an entry half open raises ValueError in its place."""

    def __del__(self) -> None:
        """Nothing, for it lies in memory."""


def agent_file(cache: Path) -> Path:
    """The agent as one file, built now if the sources have changed since it was built last.

    Args:
        cache: folder to keep it in.
    """
    sources = list(_sources())
    digest = hashlib.sha256(sys.version.encode())
    for name, path in sources:
        status = path.stat()
        digest.update(f"{name}\0{status.st_size}\0{status.st_mtime_ns}\0".encode())
    built = cache / f"gpuproof-agent-{digest.hexdigest()[:16]}.pyz"
    if not built.exists():
        build_agent(built, sources)
        _remove_older(built)
    return built


def build_agent(destination: Path, sources: list[tuple[str, Path]] | None = None) -> None:
    """Write the agent's file; the same sources and the same Python give the same bytes.

    Beside each source goes its bytecode for the Python that builds: that Python starts the agent in a fraction of the
    time, every other one passes over it and compiles the source.
    """
    destination.parent.mkdir(parents=True, exist_ok=True)
    with replacing(destination) as partial:
        partial.write_bytes(_packed(sources if sources is not None else _sources()))
        partial.chmod(0o755)


def _packed(sources: Iterable[tuple[str, Path]]) -> bytes:
    file = io.BytesIO(b"#!/usr/bin/env python3\n")
    file.seek(0, os.SEEK_END)
    archive = _Archive(file, "w", zipfile.ZIP_DEFLATED)
    for name, content in [("gpuproof/__init__.py", _PACKAGE), ("__main__.py", _MAIN)]:
        _add(archive, name, content)
    for name, path in sources:
        _add(archive, name, path.read_bytes())
    archive.close()
    return file.getvalue()


def _remove_older(built: Path) -> None:
    """Runs that go on have the agent's file in their own folders."""
    for old in built.parent.glob("gpuproof-agent-*.pyz"):
        if old != built:
            old.unlink(missing_ok=True)


def _add(archive: zipfile.ZipFile, name: str, content: bytes) -> None:
    archive.writestr(zipfile.ZipInfo(name, _EPOCH), content, zipfile.ZIP_DEFLATED)
    if not name.endswith(".py"):
        return
    # What starts with every run is stored as it is; the server is imported rarely and would be a third of the file.
    method = zipfile.ZIP_DEFLATED if name.startswith("gpuproof/serve/") else zipfile.ZIP_STORED
    archive.writestr(zipfile.ZipInfo(f"{name}c", _EPOCH), _bytecode(name, content), method)


def _bytecode(name: str, source: bytes) -> bytes:
    import marshal

    code = compile(source, f"gpuproof-agent.pyz/{name}", "exec", dont_inherit=True)
    # PEP 552: flags 1 means that the bytecode is valid without a look at the source.
    return importlib.util.MAGIC_NUMBER + (1).to_bytes(4, "little") + b"\0" * 8 + marshal.dumps(code)


def _sources() -> Iterator[tuple[str, Path]]:
    package = Path(__file__).parents[1]
    yield "gpuproof/version.py", package / "version.py"
    for room in ON_BOARD:
        for path in sorted((package / room).rglob("*.*")):
            if path.suffix in (".py", ".csv"):
                yield f"gpuproof/{path.relative_to(package).as_posix()}", path
    # Asked for by its place alone: importing it would cost more than all the rest.
    found = machinery.PathFinder.find_spec("pynvml")
    if found is not None and found.origin is not None:
        yield "pynvml.py", Path(found.origin)
