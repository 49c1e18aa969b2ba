"""Builds a machine from a folder of readings: `tests/doctor/scenarios/README.md` describes the folder."""

import ctypes
import os
import shutil
import sys
import tomllib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from gpuproof.doctor.machine import Machine
from support.cuda_stub import CUDA_VARIABLE, build_any, build_cuda, build_nvrtc
from support.nvml_stub import SCENARIO_VARIABLE, build_library

SCENARIOS = Path(__file__).parents[1] / "doctor" / "scenarios"

# Answers as the scenario says; what the scenario leaves open, the real interpreter answers.
FAKE_PYTHON = """#!/bin/sh
said='{said}'
if [ -f "$said/$4.sh" ]; then . "$said/$4.sh"; exit; fi
if [ -f "$said/$4.jsonl" ]; then sed "s/^/$(printf '\\036')gpuproof /" "$said/$4.jsonl"; exit; fi
exec '{python}' "$@"
"""
NOTHING_INSTALLED = (
    '{"kind": "packages", "python": "3.11.7", "arch": "x86_64", "prefix": "/opt/venv", "virtual": true,'
    ' "writable": true, "folders": [], "versions": {}, "requires": {}}\n'
)


@dataclass
class Readings:
    """A scenario's `machine.toml`, with what it is like below it."""

    why: str
    files: dict[str, Any] = field(default_factory=dict[str, Any])
    environment: dict[str, str] = field(default_factory=dict[str, str])
    libraries: dict[str, Any] = field(default_factory=dict[str, Any])
    other: dict[str, Any] = field(default_factory=dict[str, Any])
    folders: list[Path] = field(default_factory=list[Path])

    def newest(self, name: str) -> Path | None:
        """The file of that name from the scenario itself, or from what it is like; empty ones take it away."""
        found = next((folder / name for folder in self.folders if (folder / name).exists()), None)
        return found if found and (found.is_dir() or found.stat().st_size) else None

    def all(self, name: str) -> list[Path]:
        """What lies in the folders of that name, the scenario's own last."""
        return [one for folder in reversed(self.folders) for one in sorted((folder / name).glob("*"))]


def read_scenario(folder: Path) -> Readings:
    """Reads `machine.toml`, laid over those that it is like."""
    said = tomllib.loads((folder / "machine.toml").read_text())
    below = read_scenario(folder.parent / said["like"]) if "like" in said else Readings("")
    own = {
        key: value
        for key, value in said.items()
        if key not in ("why", "like", "files", "environment", "libraries")
    }
    return Readings(
        said["why"],
        {**below.files, **said.get("files", {})},
        {**below.environment, **said.get("environment", {})},
        {**below.libraries, **said.get("libraries", {})},
        {**below.other, **own},
        [folder, *below.folders],
    )


def build_machine(readings: Readings, place: Path, libraries: Path) -> Machine:
    """Puts the readings where the doctor looks.

    Args:
        place: an empty folder for this machine.
        libraries: where stub libraries are built, once for a whole session.
    """
    root, programs, said = place / "root", place / "bin", place / "said"
    for folder in (root, programs, said):
        folder.mkdir(parents=True)
    _lay_files(root, readings.files)
    _lay_libraries(root, readings.libraries, libraries)
    environment = _environment(readings, place, libraries)
    environment.update({name: _at(str(value), root) for name, value in readings.environment.items()})
    (said / "packages.jsonl").write_text(NOTHING_INSTALLED)
    for file in readings.all("said"):
        for other in said.glob(f"{file.stem}.*"):
            other.unlink()
        (said / file.name).write_text(_at(file.read_text(), root))
    for file in readings.all("bin"):
        shutil.copy(file, programs / file.name)
        (programs / file.name).chmod(0o755)
    python = programs / "python"
    python.write_text(FAKE_PYTHON.format(said=said, python=sys.executable))
    python.chmod(0o755)
    return Machine(
        root=root,
        environment=environment,
        python=str(python),
        instance_type=readings.other.get("instance_type"),
        region=readings.other.get("region"),
        full=readings.other.get("full", False),
        quick=readings.other.get("quick", False),
    )


def _lay_files(root: Path, files: dict[str, Any]) -> None:
    for name, content in files.items():
        path = root / name.lstrip("/")
        if content is False:
            continue
        path.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(content, str):
            path.write_text(content)
        elif "link" in content:
            path.symlink_to(content["link"])
        elif "folder" in content:
            path.mkdir(parents=True, exist_ok=True)
        else:
            raise ValueError(f"{name} = {content!r}: text, false, {{link = ...}} or {{folder = true}}")


def _lay_libraries(root: Path, wanted: dict[str, Any], built: Path) -> None:
    for name, what in wanted.items():
        if what is False:
            continue
        path = root / name.lstrip("/")
        path.parent.mkdir(parents=True, exist_ok=True)
        if what == "broken":
            path.write_bytes(b"\x7fELF")
        elif "libnvrtc" in path.name:
            shutil.copy(build_nvrtc(built), path)
        else:
            shutil.copy(build_any(built), path)
        if isinstance(what, int) and what is not True:
            path.with_name(path.name + ".version").write_text(str(what))


def _environment(readings: Readings, place: Path, libraries: Path) -> dict[str, str]:
    folders: list[str] = []
    environment = {
        "PATH": f"{place / 'bin'}:/usr/bin:/bin",
        "AWS_EC2_METADATA_DISABLED": "true",
        "HOME": str(place / "home"),
        "GPUPROOF_CACHE_DIR": str(place / "cache"),
    }
    if readings.other.get("bare"):
        _skip_where_cuda_is_installed()
    if gpus := readings.newest("gpus.txt"):
        folders.append(str(build_library(libraries)))
        environment[SCENARIO_VARIABLE] = str(gpus)
    if cuda := readings.newest("cuda.txt"):
        # A cuda-compat library is recognised by the folder that it lies in.
        home = place / "usr/local/cuda/compat" if readings.other.get("compat") else place / "driver"
        home.mkdir(parents=True)
        (home / "libcuda.so.1").write_bytes((build_cuda(libraries) / "libcuda.so.1").read_bytes())
        folders.append(str(home))
        environment[CUDA_VARIABLE] = str(cuda)
    asked = readings.environment.get("LD_LIBRARY_PATH")
    readings.environment.pop("LD_LIBRARY_PATH", None)
    folders += [_at(asked, place / "root")] if asked else []
    inherited = os.environ.get("LD_LIBRARY_PATH")
    folders += [inherited] if inherited else []
    environment["LD_LIBRARY_PATH"] = ":".join(folders)
    return environment


def _skip_where_cuda_is_installed() -> None:
    # The loader's cache cannot be taken away from a process.
    try:
        ctypes.CDLL("libcublas.so.12")
    except OSError:
        return
    pytest.skip("the loader finds CUDA 12 here, and this machine shall have none")


def _at(text: str, root: Path) -> str:
    return text.replace("{root}", str(root))
