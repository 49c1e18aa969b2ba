"""Builds a machine from a scenario folder, whose format `tests/doctor/scenarios/README.md` describes."""

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

# Prints the scenario's answer to a probe; a probe without one runs in the real interpreter.
FAKE_PYTHON = """#!/bin/sh
answers='{answers}'
if [ -f "$answers/$5.sh" ]; then . "$answers/$5.sh"; exit; fi
if [ -f "$answers/$5.jsonl" ]; then sed "s/^/$(printf '\\036')gpuproof /" "$answers/$5.jsonl"; exit; fi
exec '{python}' "$@"
"""
NOTHING_INSTALLED = (
    '{"kind": "packages", "python": "3.11.7", "arch": "x86_64", "prefix": "/opt/venv", "virtual": true,'
    ' "writable": true, "folders": [], "versions": {}, "requires": {}}\n'
)


@dataclass
class Readings:
    """A scenario's `machine.toml`, merged with the scenarios that it extends."""

    description: str
    files: dict[str, Any] = field(default_factory=dict[str, Any])
    environment: dict[str, str] = field(default_factory=dict[str, str])
    libraries: dict[str, Any] = field(default_factory=dict[str, Any])
    other: dict[str, Any] = field(default_factory=dict[str, Any])
    folders: list[Path] = field(default_factory=list[Path])

    def find_file(self, name: str) -> Path | None:
        """A file of the scenario, or of those that it extends; `None` for an empty one."""
        found = next((folder / name for folder in self.folders if (folder / name).exists()), None)
        return found if found and (found.is_dir() or found.stat().st_size) else None

    def list_files(self, name: str) -> list[Path]:
        """Files in the folders of that name, the scenario's own last."""
        return [path for folder in reversed(self.folders) for path in sorted((folder / name).glob("*"))]


def read_scenario(folder: Path) -> Readings:
    """Read `machine.toml`, merged over those that it extends."""
    document = tomllib.loads((folder / "machine.toml").read_text())
    below = read_scenario(folder.parent / document["extends"]) if "extends" in document else Readings("")
    own = {
        key: value
        for key, value in document.items()
        if key not in ("description", "extends", "files", "environment", "libraries")
    }
    return Readings(
        document["description"],
        {**below.files, **document.get("files", {})},
        {**below.environment, **document.get("environment", {})},
        {**below.libraries, **document.get("libraries", {})},
        {**below.other, **own},
        [folder, *below.folders],
    )


def build_machine(readings: Readings, target: Path, libraries: Path) -> Machine:
    """Write the readings to the paths that the doctor reads.

    Args:
        target: an empty folder for this machine.
        libraries: folder in which stub libraries are built, once per session.
    """
    root, programs, probes = target / "root", target / "bin", target / "probes"
    for folder in (root, programs, probes):
        folder.mkdir(parents=True)
    _write_files(root, readings.files)
    _write_libraries(root, readings.libraries, libraries)
    environment = _environment(readings, target, libraries)
    environment.update({name: _expand_root(str(value), root) for name, value in readings.environment.items()})
    (probes / "packages.jsonl").write_text(NOTHING_INSTALLED)
    for file in readings.list_files("probes"):
        for other in probes.glob(f"{file.stem}.*"):
            other.unlink()
        (probes / file.name).write_text(_expand_root(file.read_text(), root))
    for file in readings.list_files("bin"):
        shutil.copy(file, programs / file.name)
        (programs / file.name).chmod(0o755)
    python = programs / "python"
    python.write_text(FAKE_PYTHON.format(answers=probes, python=sys.executable))
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


def _write_files(root: Path, files: dict[str, Any]) -> None:
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


def _write_libraries(root: Path, wanted: dict[str, Any], built: Path) -> None:
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


def _environment(readings: Readings, target: Path, libraries: Path) -> dict[str, str]:
    folders: list[str] = []
    environment = {
        "PATH": f"{target / 'bin'}:/usr/bin:/bin",
        "AWS_EC2_METADATA_DISABLED": "true",
        "HOME": str(target / "home"),
        "GPUPROOF_CACHE_DIR": str(target / "cache"),
    }
    if readings.other.get("without_system_cuda"):
        _skip_where_cuda_is_installed()
    if gpus := readings.find_file("gpus.txt"):
        folders.append(str(build_library(libraries)))
        environment[SCENARIO_VARIABLE] = str(gpus)
    if cuda := readings.find_file("cuda.txt"):
        # A cuda-compat library is recognized by its folder.
        home = target / "usr/local/cuda/compat" if readings.other.get("compat") else target / "driver"
        home.mkdir(parents=True)
        (home / "libcuda.so.1").write_bytes((build_cuda(libraries) / "libcuda.so.1").read_bytes())
        folders.append(str(home))
        environment[CUDA_VARIABLE] = str(cuda)
    requested = readings.environment.get("LD_LIBRARY_PATH")
    readings.environment.pop("LD_LIBRARY_PATH", None)
    folders += [_expand_root(requested, target / "root")] if requested else []
    inherited = os.environ.get("LD_LIBRARY_PATH")
    folders += [inherited] if inherited else []
    environment["LD_LIBRARY_PATH"] = ":".join(folders)
    return environment


def _skip_where_cuda_is_installed() -> None:
    # The dynamic loader's cache cannot be hidden from a process.
    try:
        ctypes.CDLL("libcublas.so.12")
    except OSError:
        return
    pytest.skip("the loader finds CUDA 12 here, but the scenario has none")


def _expand_root(text: str, root: Path) -> str:
    return text.replace("{root}", str(root))
