"""The kernel log of this boot, from `/dev/kmsg`, `dmesg` or `journalctl`."""

from __future__ import annotations

from pathlib import Path

from gpuproof.doctor.machine import Machine, read_once
from gpuproof.util.kernel_log import parse_kernel_log, read_ring_buffer


def read_kernel_log(machine: Machine) -> tuple[tuple[float, str], ...] | None:
    """Read seconds since boot and text of each line; `None` without permission, as in most containers."""
    return read_once(machine, "kernel log", _read)


def _read(machine: Machine) -> tuple[tuple[float, str], ...] | None:
    text = read_ring_buffer(machine.path("/dev/kmsg"))
    if text is None and machine.root != Path("/"):
        return None  # dmesg would show this machine's log, not that of a machine below another root
    if text is None:
        result = machine.run_command("dmesg", seconds=3)
        text = result.output if result.code == 0 else None
    if text is None:
        journal = ("journalctl", "-k", "-b", "-q", "--no-pager", "-o", "short-monotonic", "-n", "5000")
        result = machine.run_command(*journal, seconds=3)
        text = result.output if result.code == 0 and result.output else None
    return None if text is None else parse_kernel_log(text)
