"""Puts `/opt/ml` on the instance's local NVMe disks, which are faster and larger than its root volume; best effort.

Deep Learning AMIs stripe all local disks with LVM and mount them at /opt/dlami/nvme by a systemd unit that is not ordered before
user data: https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/ssd-instance-store.html,
https://github.com/aws/aws-parallelcluster-cookbook (setup-ephemeral-drives.sh, which the unit runs in a copy).
"""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Callable

from gpuproof.agent.ec2_host.transfer.aws_cli import Wait

_UNIT = "dlami-nvme.service"
_UNIT_S = 300.0
"""The unit's own `TimeoutStartSec`."""
_STEP_S = 0.5
_PATTERN = "nvme-Amazon_EC2_NVMe_Instance_Storage_*"
_NO_FILE_SYSTEM = 2  # exit status of `blkid -p`
_STRIPE_KIB = 64


@dataclass(frozen=True)
class DiskPaths:
    """Where the machine image has its disks.

    Args:
        mounted: where Deep Learning AMIs mount the local disks.
        by_id: links to all disks.
        devices: the folder of device files.
    """

    mounted: Path = Path("/opt/dlami/nvme")
    by_id: Path = Path("/dev/disk/by-id")
    devices: Path = Path("/dev")


@dataclass(frozen=True)
class FolderDisk:
    """Which disk a folder is on.

    Args:
        is_local: whether it is on local disks; else it is on the root volume.
        note: for the user.
    """

    is_local: bool
    note: str


def use_local_disk(
    folder: Path, wait: Wait, *, expected: bool = False, paths: DiskPaths | None = None
) -> FolderDisk | None:
    """Mount the local disks at a folder, if there are any that are not in use; None if there is nothing to say.

    Args:
        wait: waits for some seconds.
        expected: whether the instance type has local disks; without any, the note says that they are missing.

    Raises:
        OSError: the folder cannot be created.
    """
    paths = paths or DiskPaths()
    folder.mkdir(parents=True, exist_ok=True)
    waited = _wait_for_unit(wait)
    if os.path.ismount(paths.mounted):
        source = paths.mounted / "gpuproof"
        source.mkdir(exist_ok=True)
        return _mounted(_run("mount", "--bind", str(source), str(folder)), folder, str(paths.mounted))
    disks = sorted({path.resolve() for path in paths.by_id.glob(_PATTERN) if "-part" not in path.name})
    if not disks:
        missing = "the instance type has local disks, and none was found"
        return _on_root(folder, missing) if expected else None
    if not waited:
        return _on_root(folder, f"{_UNIT} has not finished within {_UNIT_S:.0f} s")
    blank = [str(disk) for disk in disks if _is_blank(disk)]
    if not blank:
        return _on_root(folder, f"the local disks ({', '.join(map(str, disks))}) are in use")
    device, name = _stripe(blank, paths.devices)
    # Without discarding and initializing the whole disk, which takes minutes.
    made = _run("mkfs.ext4", "-q", "-F", "-E", "nodiscard,lazy_itable_init=1", device)
    return _mounted(made or _run("mount", device, str(folder)), folder, name)


def _wait_for_unit(wait: Wait) -> bool:
    """Have the AMI's unit mount the disks, or wait until it has; returns whether nothing is under way any more."""
    try:
        process = subprocess.Popen(
            ["systemctl", "start", _UNIT],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
    except OSError:
        return True
    end = time.monotonic() + _UNIT_S
    while process.poll() is None:
        if time.monotonic() >= end:
            process.kill()
            process.wait()
            return False
        wait(_STEP_S)
    return True


def _is_blank(disk: Path) -> bool:
    """Whether a disk has no file system, no partitions and no other signature."""
    try:
        probe = subprocess.run(["blkid", "-p", str(disk)], capture_output=True, check=False)
    except OSError:
        return False
    return probe.returncode == _NO_FILE_SYSTEM


def _stripe(disks: Sequence[str], devices: Path) -> tuple[str, str]:
    """One device of all disks, and its name for people; of the first disk, if neither LVM nor mdadm can stripe them."""
    count = len(disks)
    if count == 1:
        return disks[0], disks[0]
    attempts: tuple[Callable[[], tuple[str, str]], ...] = (
        lambda: _stripe_with_lvm(disks, devices),
        lambda: _stripe_with_mdadm(disks, devices),
    )
    problems: list[str] = []
    for attempt in attempts:
        device, problem = attempt()
        if not problem:
            return device, f"{count} disks as {device}"
        problems.append(problem)
    return disks[0], f"{disks[0]}, one of {count}: {'; '.join(problems)}"


def _stripe_with_lvm(disks: Sequence[str], devices: Path) -> tuple[str, str]:
    size = ("-i", str(len(disks)), "-I", str(_STRIPE_KIB), "-l", "100%FREE")
    made = _run("vgcreate", "-y", "gpuproof", *disks)
    return str(devices / "gpuproof" / "ml"), made or _run("lvcreate", "-y", *size, "-n", "ml", "gpuproof")


def _stripe_with_mdadm(disks: Sequence[str], devices: Path) -> tuple[str, str]:
    device = str(devices / "md" / "gpuproof")
    return device, _run(
        "mdadm", "--create", device, "--run", "--level=0", f"--raid-devices={len(disks)}", *disks
    )


def _mounted(problem: str, folder: Path, source: str) -> FolderDisk:
    if problem:
        return _on_root(folder, f"{source} could not be used: {problem}")
    return FolderDisk(is_local=True, note=f"{folder} is on the local disk ({source})")


def _on_root(folder: Path, why: str) -> FolderDisk:
    return FolderDisk(is_local=False, note=f"{folder} is on the root volume: {why}")


def _run(*words: str) -> str:
    """Run a program; return why it failed, or an empty text."""
    try:
        done = subprocess.run(words, capture_output=True, check=False)
    except FileNotFoundError:
        return f"{words[0]} is not installed"
    except OSError as error:
        return str(error)
    if done.returncode == 0:
        return ""
    return done.stderr.decode(errors="replace").strip()[-200:] or f"{words[0]} exited with {done.returncode}"
