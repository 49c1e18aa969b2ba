"""Probe for the user's interpreter: installed packages, from folder names; imports no framework."""

from __future__ import annotations

import os
import platform
import re
import sys

from gpuproof.gpu.probe_record import emit

FRAMEWORKS = ("torch", "tensorflow", "tensorflow-cpu", "keras", "jax", "jaxlib")
COMPANIONS = ("torchvision", "torchaudio")
"""Packages whose compiled code must match the installed PyTorch."""
OTHERS = ("pip", "numpy", "triton", *COMPANIONS, "tf-keras", "cupy", "tensorrt")
CUDA = {
    "torch": ("torch/version.py", r"^cuda(?:: [^=\n]+)? = ['\"]([\d.]+)"),
    "tensorflow": ("tensorflow/python/platform/build_info.py", r"['\"]cuda_version['\"][,:]\s*['\"]([\d.]+)"),
}
"""The file of a framework that names the CUDA it was built with, and where; a CPU build names none."""
_REQUIRED = re.compile(r"(?:nvidia-|cuda-|torch\b|triton\b|numpy\b|keras\b)[\w.-]*")


def main() -> None:
    folders = [folder for folder in sys.path if folder]
    found: dict[str, tuple[str, str]] = {}
    for folder in folders:
        for name, version, path in distributions(folder):
            found.setdefault(name, (version, path))
    emit(
        "packages",
        python=platform.python_version(),
        arch=platform.machine(),
        prefix=sys.prefix,
        virtual=sys.prefix != sys.base_prefix or os.path.isdir(os.path.join(sys.prefix, "conda-meta")),  # noqa: PTH112, PTH118
        writable=os.access(sys.prefix, os.W_OK),
        folders=folders,
        versions={name: version for name, (version, _) in sorted(found.items())},
        installers={name: first_line(found[name][1], "INSTALLER") for name in FRAMEWORKS if name in found},
        requires={name: requires(found[name][1]) for name in (*FRAMEWORKS, *COMPANIONS) if name in found},
        built={name: built(found[name][1], name) for name in COMPANIONS if name in found},
        cuda=built_for(folders),
    )


def distributions(folder: str) -> list[tuple[str, str, str]]:
    """Name, version and folder of the relevant packages."""
    try:
        entries = os.listdir(folder)  # noqa: PTH208 - only the names are needed, and this is faster
    except OSError:
        return []
    found: list[tuple[str, str, str]] = []
    for entry in sorted(entries):
        match = re.fullmatch(r"(.+?)-(\d.*?)(?:-py[\d.]+)?\.(?:dist|egg)-info", entry)
        if match is None:
            continue
        name = re.sub(r"[-_.]+", "-", match[1]).lower()
        if (
            name in FRAMEWORKS
            or name in OTHERS
            or name.startswith(("nvidia-", "tensorflow", "cuda-", "jax-cuda"))
        ):
            found.append((name, match[2], os.path.join(folder, entry)))  # noqa: PTH118
    return found


def first_line(folder: str, name: str) -> str:
    """First line of a metadata file, such as the installer: `pip`, `uv`, `conda`."""
    try:
        with open(os.path.join(folder, name), encoding="utf-8", errors="replace") as file:  # noqa: PTH118, PTH123
            return file.readline().strip()
    except OSError:
        return ""


def requires(folder: str) -> list[str]:
    """Relevant packages that a wheel requires: `nvidia-cudnn-cu12==9.1.0.70; ...`."""
    try:
        with open(os.path.join(folder, "METADATA"), encoding="utf-8", errors="replace") as metadata:  # noqa: PTH118, PTH123
            lines = metadata.read().split("\n\n", 1)[0].splitlines()
    except OSError:
        return []
    required = (line[len("Requires-Dist: ") :] for line in lines if line.startswith("Requires-Dist: "))
    return [line for line in required if _REQUIRED.match(line)]


def built(folder: str, name: str) -> str:
    """The version in a package's own `version.py`, which names its CUDA even in wheels from PyPI: `0.26.0+cu130`."""
    try:
        with open(os.path.join(os.path.dirname(folder), name, "version.py"), encoding="utf-8") as file:  # noqa: PTH118, PTH120, PTH123
            found = re.search(r"__version__ = ['\"]([^'\"]+)", file.read(4096))
    except (OSError, ValueError):
        return ""
    return found[1] if found else ""


def built_for(folders: list[str]) -> dict[str, str]:
    """The CUDA that each framework was built with, such as `13.0`; without those that were built for the CPU."""
    found: dict[str, str] = {}
    for name, (path, pattern) in CUDA.items():
        text = next((text for folder in folders if (text := beginning(f"{folder}/{path}")) is not None), "")
        if (match := re.search(pattern, text, re.MULTILINE)) is not None:
            found[name] = match[1]
    return found


def beginning(path: str) -> str | None:
    """The first 64 KiB of a text file; `None` if it cannot be read."""
    try:
        with open(path, encoding="utf-8", errors="replace") as file:  # noqa: PTH123
            return file.read(65536)
    except OSError:
        return None


if __name__ == "__main__":
    main()
