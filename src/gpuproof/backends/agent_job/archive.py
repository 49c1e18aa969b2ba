"""Builds `gpuproof-agent.pyz`: the host packages and pynvml in one file that runs with Python 3.9 and later."""

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

from gpuproof.backends.shared_cache import mark_used, remove_unused
from gpuproof.util.atomic import replacing

HOST_PACKAGES = ("agent", "gpu", "notebook", "runtime", "serve", "terminal", "util", "watch")
_SHARED = ("version.py", "findings.py")
"""Modules beside the packages that both halves use."""

_COMPRESSED = (
    "gpuproof/findings.py",
    *("gpuproof/agent/cluster/", "gpuproof/agent/ec2_host/", "gpuproof/agent/hosts/"),
    *(
        "gpuproof/agent/artifacts/",
        "gpuproof/agent/environments/sagemaker_",
        "gpuproof/agent/environments/training_toolkit",
        "gpuproof/agent/gpu_check.py",
        "gpuproof/agent/idle/",
        "gpuproof/agent/launch/mpi",
        "gpuproof/agent/launch/pytorch",
        "gpuproof/agent/launch/server_host",
        "gpuproof/agent/launch/tensorflow",
        "gpuproof/agent/launch/torchrun",
        "gpuproof/agent/local_hosts/",
        "gpuproof/agent/machine/",
        "gpuproof/agent/mpi/",
        *(f"gpuproof/agent/notify/{name}" for name in ("aws", "notifier", "sns", "webhook")),
        "gpuproof/agent/requirements/",
        *(
            f"gpuproof/agent/sinks/{name}"
            for name in ("mlflow", "opentel", "prom", "tensorb", "trackio", "wandb")
        ),
        "gpuproof/agent/stall/",
        "gpuproof/gpu/checks/",
        "gpuproof/gpu/cuda",
        "gpuproof/gpu/diagnosis.py",
        "gpuproof/gpu/driver.py",
        "gpuproof/gpu/framework_probe.py",
        "gpuproof/gpu/health.py",
        "gpuproof/gpu/probe",
        "gpuproof/runtime/",
        "gpuproof/notebook/",
        "gpuproof/serve/",
        "gpuproof/terminal/",
        "gpuproof/watch/",
    ),
    # Imported only where there is a driver, which takes 80 ms anyway.
    "pynvml.py",
)
_MAIN = b"""import sys

if sys.argv[1:2] in (["serve"], ["worker"], ["decoder"]):
    from gpuproof.serve.main import main
elif sys.argv[1:2] in (["watch"], ["monitor"]):
    from gpuproof.watch.main import main
elif sys.argv[1:2] in (["--rank"], ["--watched-rank"], ["--torchrun"]):
    from gpuproof.agent.ranks.main import main
elif sys.argv[1:2] in (["--mpi-run"], ["--mpi-host"], ["--mpi-connect"]):
    from gpuproof.agent.mpi.main import main
elif sys.argv[1:2] == ["--ec2-host"]:
    from gpuproof.agent.ec2_host.main import main
elif sys.argv[1:2] == ["--idle-watch"]:
    from gpuproof.agent.idle.main import main
elif sys.argv[1:2] == ["--machine"]:
    from gpuproof.agent.machine.main import main
elif sys.argv[1:2] == ["--sink"]:
    from gpuproof.agent.sinks.main import main
elif sys.argv[1:2] == ["--gpu-check"]:
    from gpuproof.agent.gpu_check import main
else:
    from gpuproof.agent.main import main

sys.exit(main())
"""
# Not the installed package's own `__init__.py`, which refers to client modules that are not in the archive.
_PACKAGE = b"from gpuproof.version import __version__ as __version__\n"
# A fixed date, for reproducible builds; the earliest one that zip supports.
_EPOCH = (1980, 1, 1, 0, 0, 0)


class _Archive(zipfile.ZipFile):
    """A ZipFile that is not closed on deletion: after Ctrl-C, closing it with an open entry would raise ValueError."""

    def __del__(self) -> None:
        """Nothing: the file is in memory."""


def agent_file(cache: Path) -> Path:
    """The path of the agent's file; it is rebuilt if the sources have changed.

    Files of other versions of GPUproof and Python, which may run at the same time, stay until they are no longer used.
    """
    sources = list(_sources())
    digest = hashlib.sha256(sys.version.encode())
    for name, path in sources:
        status = path.stat()
        digest.update(f"{name}\0{status.st_size}\0{status.st_mtime_ns}\0".encode())
    built = cache / f"gpuproof-agent-{digest.hexdigest()[:16]}.pyz"
    if not mark_used(built):
        build_agent(built, sources)
        remove_unused(cache.glob("gpuproof-agent-*.pyz"))
    return built


def build_agent(destination: Path, sources: list[tuple[str, Path]] | None = None) -> None:
    """Write the agent's file; the same sources and the same Python result in the same bytes.

    The file also contains bytecode for the current Python version, which starts the agent faster; other versions ignore
    it and compile the sources.
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


def _add(archive: zipfile.ZipFile, name: str, content: bytes) -> None:
    archive.writestr(zipfile.ZipInfo(name, _EPOCH), content, zipfile.ZIP_DEFLATED)
    if not name.endswith(".py"):
        return
    # Bytecode of the agent is stored uncompressed for a fast start; the rest is large and not used by most runs.
    method = zipfile.ZIP_DEFLATED if name.startswith(_COMPRESSED) else zipfile.ZIP_STORED
    archive.writestr(zipfile.ZipInfo(f"{name}c", _EPOCH), _bytecode(name, content), method)


def _bytecode(name: str, source: bytes) -> bytes:
    import marshal

    code = compile(source, f"gpuproof-agent.pyz/{name}", "exec", dont_inherit=True)
    # PEP 552: with flag 1, the bytecode is valid without a check of the source.
    return importlib.util.MAGIC_NUMBER + (1).to_bytes(4, "little") + b"\0" * 8 + marshal.dumps(code)


def _sources() -> Iterator[tuple[str, Path]]:
    package = Path(__file__).parents[2]
    for name in _SHARED:
        yield f"gpuproof/{name}", package / name
    for room in HOST_PACKAGES:
        for path in sorted((package / room).rglob("*.*")):
            if path.suffix in (".py", ".csv"):
                yield f"gpuproof/{path.relative_to(package).as_posix()}", path
    # Found without importing it, which would take longer than everything else.
    found = machinery.PathFinder.find_spec("pynvml")
    if found is not None and found.origin is not None:
        yield "pynvml.py", Path(found.origin)
