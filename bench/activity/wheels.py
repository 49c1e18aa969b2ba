"""Downloads what GPUproof and its GPU tests need on a machine that has Python and PyTorch, and no network."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterable, Iterator
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

from packaging.requirements import Requirement

ROOTS = ("gpuproof", "pytest", "pytest-xdist", "hypothesis")
_GLIBC = ("2_28", "2_27", "2_24", "2_17", "2_12")
PLATFORMS = (
    *(f"manylinux_{version}_x86_64" for version in _GLIBC),
    "manylinux2014_x86_64",
    "manylinux1_x86_64",
    "any",
)


def download(folder: Path, python: str) -> int:
    """Download wheels of the versions that this checkout has; returns pip's exit code.

    Args:
        python: version of the other machine's Python, such as `3.12`.
    """
    wanted = pins(ROOTS, python)
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.glob("*.whl"):
        old.unlink()
    code = subprocess.run(command(folder, python, wanted), check=False).returncode
    if code == 0:
        size = sum(path.stat().st_size for path in folder.glob("*.whl"))
        print(f"{folder}: {len(list(folder.glob('*.whl')))} wheels, {size / 1e6:.0f} MB")
    return code


def command(folder: Path, python: str, wanted: Iterable[str]) -> list[str]:
    """The call of pip."""
    platforms = [word for name in PLATFORMS for word in ("--platform", name)]
    return [
        *(sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary=:all:"),
        *("--python-version", python, "--implementation", "cp", *platforms, "--dest", str(folder)),
        *wanted,
    ]


def pins(roots: Iterable[str], python: str) -> list[str]:
    """`name==version` of everything that `roots` need on Linux, as it is installed here, without GPUproof itself.

    Raises:
        PackageNotFoundError: one of `roots` is not installed here.
    """
    roots = tuple(roots)
    found: dict[str, str] = {}
    waiting = list(roots)
    while waiting:
        name = _normalized(waiting.pop())
        if name in found:
            continue
        try:
            package = distribution(name)
        except PackageNotFoundError:
            if name in roots:
                raise
            continue  # needed by another version of Python only
        found[name] = package.version
        waiting += _needs(package.requires or (), python)
    found.pop("gpuproof", None)
    return [f"{name}=={version}" for name, version in sorted(found.items())]


def _needs(requirements: Iterable[str], python: str) -> Iterator[str]:
    there = {"python_version": python, "python_full_version": f"{python}.0", "extra": ""}
    for text in requirements:
        requirement = Requirement(text)
        if requirement.marker is None or requirement.marker.evaluate(there):
            yield requirement.name


def _normalized(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()
