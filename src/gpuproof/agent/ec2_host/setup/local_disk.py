"""Puts `/opt/ml` on the instance's local NVMe disk, which is faster and larger than its root volume; best effort.

Sources: https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/ssd-instance-store.html;
Deep Learning AMIs with NVMe disks mount them at /opt/dlami/nvme.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

_MOUNTED_BY_AMI = Path("/opt/dlami/nvme")
_DEVICES = Path("/dev/disk/by-id")
_PATTERN = "nvme-Amazon_EC2_NVMe_Instance_Storage_*"
_NO_FILE_SYSTEM = 2  # exit status of `blkid -p`


def use_local_disk(folder: Path) -> str | None:
    """Mount a local disk at a folder, if there is one that is not in use; return a note about it.

    Raises:
        OSError: the folder cannot be created.
    """
    folder.mkdir(parents=True, exist_ok=True)
    if os.path.ismount(_MOUNTED_BY_AMI):
        source = _MOUNTED_BY_AMI / "gpuproof"
        source.mkdir(exist_ok=True)
        return _note(_run("mount", "--bind", str(source), str(folder)), folder, str(_MOUNTED_BY_AMI))
    for device in sorted({path.resolve() for path in _DEVICES.glob(_PATTERN)}):
        try:
            blank = subprocess.run(["blkid", "-p", str(device)], capture_output=True, check=False)
        except OSError:
            return None
        if blank.returncode != _NO_FILE_SYSTEM:
            continue
        # Without discarding and initializing the whole disk, which takes minutes.
        made = _run("mkfs.ext4", "-q", "-F", "-E", "nodiscard,lazy_itable_init=1", str(device))
        return _note(made or _run("mount", str(device), str(folder)), folder, str(device))
    return None


def _note(problem: str, folder: Path, source: str) -> str:
    if problem:
        return f"{folder} is on the root volume: {source} could not be used: {problem}"
    return f"{folder} is on the local disk ({source})"


def _run(*words: str) -> str:
    """Run a program; return why it failed, or an empty text."""
    try:
        done = subprocess.run(words, capture_output=True, check=False)
    except OSError as error:
        return str(error)
    if done.returncode == 0:
        return ""
    return done.stderr.decode(errors="replace").strip()[-200:] or f"{words[0]} exited with {done.returncode}"
