"""NVSwitch machines (p4d, p4de, p5, p6): CUDA does not start without an initialized fabric (error 802).

Source: https://docs.nvidia.com/datacenter/tesla/fabric-manager-user-guide/
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from gpuproof.findings import Finding, Severity
from gpuproof.gpu.checks.states import Gpus, GpuState

_MANAGER = "nv-fabricmanager"
_COMM_NAME = _MANAGER[:15]
"""The kernel keeps 15 bytes of a process's name."""
_SWITCH = ("0x10de", "0x0680")
"""PCI vendor and class of an NVSwitch: NVIDIA, bridge/other."""


@dataclass(frozen=True)
class Reading:
    """State of the NVLink fabric.

    Args:
        switches: number of NVSwitches.
        manager_runs: whether Fabric Manager runs; `None` if the host's processes are not visible.
        driver: version of the driver, which Fabric Manager's must equal.
    """

    switches: int
    manager_runs: bool | None
    gpus: tuple[tuple[str, str | None, int | None], ...]
    driver: str | None = None


def read_fabric(gpus: Gpus | None, root: Path, *, in_container: bool) -> Reading | None:
    """Read the fabric; `None` on a machine without one.

    Args:
        root: the folder that holds `/proc` and `/sys`.
        in_container: whether the host's processes are not visible.
    """
    states = gpus.states if gpus else ()
    switches = _switches(root)
    if not switches and not any(gpu.health.fabric not in (None, "not supported") for gpu in states):
        return None
    return Reading(
        switches,
        None if in_container else _manager_runs(root),
        tuple(_gpu_fabric(gpu) for gpu in states),
        gpus.driver if gpus else None,
    )


def evaluate(reading: Reading) -> Iterator[Finding]:
    """D625 Fabric Manager does not run, D626 GPUs that are not registered with the fabric."""
    evidence = (f"NVSwitches: {reading.switches}",) if reading.switches else ()
    if reading.switches and reading.manager_runs is False:
        version = f" {reading.driver}, the driver's version" if reading.driver else " the driver's version"
        yield Finding(
            "D625",
            Severity.ERROR,
            "Fabric Manager is not running, but the GPUs of this machine communicate through NVSwitches: CUDA fails with "
            "`system not yet initialized` (802), although nvidia-smi looks fine.",
            (*evidence, f"no process called {_MANAGER}"),
            f"sudo systemctl enable --now nvidia-fabricmanager; if it does not start, install{version}.",
        )
        return
    if len(reading.gpus) < 2:
        return
    failed = [gpu for gpu in reading.gpus if gpu[1] == "completed" and gpu[2]]
    waiting = [gpu for gpu in reading.gpus if gpu[1] in ("not started", "in progress")]
    for gpus, what in ((failed, "failed to register with"), (waiting, "is not yet registered with")):
        if gpus:
            names = ", ".join(label for label, _, _ in gpus)
            yield Finding(
                "D626",
                Severity.ERROR,
                f"{names} {what} the NVLink fabric: CUDA waits for it or fails with error 802.",
                (*evidence, *(_describe(gpu) for gpu in gpus)),
                "`journalctl -u nvidia-fabricmanager` shows the reason; then sudo systemctl restart nvidia-fabricmanager.",
            )


def _switches(root: Path) -> int:
    count = 0
    for device in (root / "sys/bus/pci/devices").glob("*"):
        vendor, kind = _read(device / "vendor"), _read(device / "class")
        if vendor and kind and (vendor.strip(), kind.strip()[:6]) == _SWITCH:
            count += 1
    return count or len(list((root / "proc/driver/nvidia-nvswitch/devices").glob("*")))


def _manager_runs(root: Path) -> bool | None:
    names = [_read(folder / "comm") for folder in (root / "proc").glob("[0-9]*")]
    known = [name.strip() for name in names if name]
    return _COMM_NAME in known if known else None


def _read(path: Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None


def _gpu_fabric(gpu: GpuState) -> tuple[str, str | None, int | None]:
    return gpu.label, gpu.health.fabric, gpu.health.fabric_status


def _describe(gpu: tuple[str, str | None, int | None]) -> str:
    label, state, status = gpu
    return f"{label}: {state}" + (f", NVML code {status}" if status else "")
