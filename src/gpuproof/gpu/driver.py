"""Reads the NVIDIA driver's state from system files (PCI devices, device files, kernel module) without loading anything."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path

from gpuproof.util.versions import version_key

NVIDIA = "0x10de"
"""NVIDIA's PCI vendor id."""

_GPU_CLASS = "0x03"
"""PCI base class of display controllers: 0300 VGA, 0302 3D. NVSwitch, audio and USB functions have others."""
_DISPLAY_DRIVERS = ("nouveau", "nova_core", "NovaCore", "nova")
"""Linux's own drivers for NVIDIA GPUs, which have no CUDA; Nova is nouveau's successor."""
_BUILT_AT = ("updates/dkms", "updates", "extra", "weak-updates", "kernel/drivers/video", "kernel/nvidia")


@dataclass(frozen=True)
class PciGpu:
    """An NVIDIA GPU on the PCI bus.

    Args:
        address: such as `0000:00:1e.0`.
        device_id: such as `0x2237`, an A10G.
        driver: the kernel driver bound to it: `nvidia`, `nouveau`, `vfio-pci`; `None` without one.
    """

    address: str
    device_id: str
    driver: str | None = None


@dataclass(frozen=True)
class DriverFiles:
    """The driver's state in `/sys`, `/proc` and `/dev`.

    Args:
        pci: GPUs on the bus; `None` if the bus cannot be read.
        device_files: numbers of the existing `/dev/nvidiaN`.
        control: whether `/dev/nvidiactl` exists.
        uvm: whether `/dev/nvidia-uvm` exists.
        forbidden: device files that this user may not open.
        loaded: whether the `nvidia` kernel module is loaded; `None` if unknown.
        version: its version, such as `580.95.05`.
        flavour: `open` or `proprietary`.
        nouveau: whether the nouveau module is loaded.
        wsl: whether GPUs come through Windows (`/dev/dxg`).
        container: whether this is a container, whose `/sys` shows the host's devices.
        built_for: kernels with an `nvidia` module in `/lib/modules`.
        libraries: versions of the driver's libraries, from their file names, newest last.
    """

    pci: tuple[PciGpu, ...] | None = ()
    device_files: tuple[int, ...] = ()
    control: bool = False
    uvm: bool = False
    forbidden: tuple[str, ...] = ()
    loaded: bool | None = None
    version: str | None = None
    flavour: str | None = None
    nouveau: bool = False
    wsl: bool = False
    container: bool = False
    kernel: str | None = None
    built_for: tuple[str, ...] = ()
    libraries: tuple[str, ...] = ()

    @property
    def present(self) -> bool:
        """Whether there is any sign of a GPU."""
        return bool(self.pci or self.device_files or self.wsl)

    @property
    def display_driver(self) -> str | None:
        """The display driver that holds a GPU, such as `nouveau`; NVIDIA's driver cannot use it then."""
        return next((gpu.driver for gpu in self.pci or () if gpu.driver in _DISPLAY_DRIVERS), None)


def read_driver_files(root: Path = Path("/")) -> DriverFiles:
    """Read all files; missing ones leave the defaults. Takes some milliseconds."""
    files = _device_files(root)
    version, flavour = read_kernel_module(root)
    modules = _text(root / "proc/modules")
    named = (
        {line.split()[0] for line in modules.splitlines() if line.strip()} if modules is not None else None
    )
    loaded = version is not None or (root / "sys/module/nvidia").is_dir() or "nvidia" in (named or ())
    kernel = (_text(root / "proc/sys/kernel/osrelease") or "").strip() or None
    numbers = sorted(int(name[6:]) for name in files if re.fullmatch(r"nvidia\d+", name))
    return DriverFiles(
        pci=_pci(root),
        device_files=tuple(numbers),
        control="nvidiactl" in files,
        uvm="nvidia-uvm" in files,
        forbidden=tuple(
            f"/dev/{name}" for name in files if not os.access(root / "dev" / name, os.R_OK | os.W_OK)
        ),
        loaded=loaded if loaded or named is not None else None,
        version=version,
        flavour=flavour,
        nouveau="nouveau" in (named or ()) or (root / "sys/module/nouveau").is_dir(),
        wsl=(root / "dev/dxg").exists(),
        container=in_container(root),
        kernel=kernel,
        built_for=_built_for(root),
        libraries=_libraries(root),
    )


def read_kernel_module(root: Path = Path("/")) -> tuple[str | None, str | None]:
    """Version and flavour (`open`, `proprietary`) of the loaded module, from its banner; of the host's in a container."""
    banner = _text(root / "proc/driver/nvidia/version")
    if banner is None:
        alone = (_text(root / "sys/module/nvidia/version") or "").strip()
        return alone or None, None
    first = banner.splitlines()[0] if banner.strip() else ""
    # "NVIDIA UNIX x86_64 Kernel Module  535.104.05 ..." or "NVIDIA UNIX Open Kernel Module for x86_64  580.95.05 ...";
    # Arm drivers and GRID print the same form.
    version = re.search(r"\s(\d+\.\d+(?:\.\d+)?)\s", first + " ")
    flavour = "open" if "Open Kernel Module" in first else "proprietary"
    return (version[1], flavour) if version else (None, None)


def in_container(root: Path = Path("/")) -> bool:
    """Whether this is a container (Docker, Podman, Kubernetes, SageMaker) and not the host itself."""
    if any((root / mark).exists() for mark in (".dockerenv", "run/.containerenv")):
        return True
    control_groups = _text(root / "proc/1/cgroup") or ""
    return any(word in control_groups for word in ("docker", "kubepods", "containerd", "/ecs/"))


def _pci(root: Path) -> tuple[PciGpu, ...] | None:
    try:
        folders = sorted((root / "sys/bus/pci/devices").iterdir())
    except OSError:
        return None
    found: list[PciGpu] = []
    for folder in folders:
        if (_text(folder / "vendor") or "").strip() != NVIDIA:
            continue
        if not (_text(folder / "class") or "").startswith(_GPU_CLASS):
            continue
        try:
            driver = (folder / "driver").readlink().name
        except OSError:
            driver = None
        found.append(PciGpu(folder.name, (_text(folder / "device") or "").strip(), driver))
    return tuple(found)


def _device_files(root: Path) -> list[str]:
    try:
        return sorted(
            name
            for name in os.listdir(root / "dev")  # noqa: PTH208 - names are all that is wanted
            if re.fullmatch(r"nvidia(\d+|ctl|-uvm)", name)
        )
    except OSError:
        return []


def _built_for(root: Path) -> tuple[str, ...]:
    """Kernels for which the module was built; searches only where packages put it, because the whole tree is large."""
    try:
        kernels = sorted(folder for folder in (root / "lib/modules").iterdir() if folder.is_dir())
    except OSError:
        return ()
    return tuple(
        kernel.name
        for kernel in kernels
        if any(
            any((kernel / place).glob(f"{depth}nvidia.ko*")) for place in _BUILT_AT for depth in ("", "*/")
        )
    )


def _libraries(root: Path) -> tuple[str, ...]:
    """Versions of the driver's user-space libraries, from file names such as `libnvidia-ml.so.580.95.05`."""
    folders = ("usr/lib/x86_64-linux-gnu", "usr/lib/aarch64-linux-gnu", "usr/lib64", "usr/lib")
    found = {
        path.name.partition(".so.")[2]
        for folder in folders
        for path in (root / folder).glob("libnvidia-ml.so.*.*")
    }
    return tuple(sorted(found, key=version_key))


def _text(path: Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
