"""Which processes have opened GPUs with CUDA: where NVML lists no process, as in containers, it is what can be known.

CUDA opens `/dev/nvidia-uvm` and the file of each GPU that it can see: an open file is no proof of use, and without one there is none.
Programs that only read NVML, such as nvidia-smi, do not open the former.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping

_DEVICE = re.compile(r"/dev/nvidia(\d+)")
_CUDA = "/dev/nvidia-uvm"


def find_device_users() -> Mapping[int, frozenset[int]]:
    """The processes that have opened GPUs with CUDA, as far as this user may see their files: minor numbers by process id."""
    found: dict[int, frozenset[int]] = {}
    try:
        names = os.listdir("/proc")  # noqa: PTH208 - names, not paths: hundreds of them
    except OSError:
        return found
    for name in names:
        if name.isdigit() and (minors := _open_devices(name)):
            found[int(name)] = minors
    return found


def _open_devices(pid: str) -> frozenset[int]:
    folder = f"/proc/{pid}/fd"
    minors: set[int] = set()
    uses_cuda = False
    try:
        descriptors = os.listdir(folder)  # noqa: PTH208 - as above
    except OSError:
        return frozenset()
    for descriptor in descriptors:
        try:
            target = os.readlink(f"{folder}/{descriptor}")  # noqa: PTH115 - as above
        except OSError:
            continue
        uses_cuda = uses_cuda or target == _CUDA
        if match := _DEVICE.fullmatch(target):
            minors.add(int(match[1]))
    return frozenset(minors) if uses_cuda else frozenset()
