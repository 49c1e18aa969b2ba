"""Xid events: entries of the driver in the kernel log when a GPU, or a program on it, failed."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from gpuproof.findings import Finding, Location, Severity
from gpuproof.gpu.checks.remedies import MOVE_TO_OTHER_HARDWARE
from gpuproof.gpu.checks.states import Gpus
from gpuproof.gpu.xids import known_xids

_XID = re.compile(r"NVRM: Xid \((?:PCI:)?([0-9A-Fa-f:.]+)\): (\d+)(?:,\s*(.*))?")
_SXID = re.compile(r"nvidia-nvswitch\S*: SXid \((?:PCI:)?([0-9A-Fa-f:.]+)\): (\d+), (.*)")
_RECOVERY = re.compile(r"changed from .* to 0x[0-9a-f]+ \((.*?)\)")
_PROGRAM = re.compile(r"\bname=('[^']*'|[^,]*)")
_NO_ACTION = "None"
_FOLLOW_UP_EVENTS = frozenset({43, 45, 154})
"""Events that follow another one on the same GPU; without another one they are reported themselves."""
_MAX_TEXT = 160

ACTIONS = {
    "restart": "Start the job again. If it comes back only on this machine, {replacement}",
    "debug": "The cause is nearly always the program: look for an index out of range or a faulty custom kernel with "
    "CUDA_LAUNCH_BLOCKING=1, or run it under compute-sanitizer. If many different programs are affected, {replacement}",
    "watch": "No action, unless it repeats: then {replacement}",
    "remap": "No action; if a row remap is pending, reboot when convenient.",
    "reset": "Reboot the machine (or `nvidia-smi --gpu-reset` while no process uses the GPU). If it comes back, "
    "{replacement}",
    "reboot": "Reboot the machine. If it comes back, {replacement}",
    "gsp": "Reboot the machine. If it comes back, update the driver, or disable the GSP firmware if the "
    "proprietary kernel module is used (options nvidia NVreg_EnableGpuFirmware=0); then {replacement}",
    "replace": "This GPU is defective: {replacement}",
}


@dataclass(frozen=True)
class Event:
    """One Xid (or SXid of an NVSwitch) in the kernel log, seen once or more.

    Args:
        bus: the PCI address as in the log.
        first_s: seconds from boot to the first.
        last_s: seconds from boot to the last.
        text: message of the last one.
    """

    bus: str
    number: int
    count: int
    first_s: float
    last_s: float
    text: str
    of_switch: bool = False


@dataclass(frozen=True)
class Reading:
    """Events in the kernel log.

    Args:
        labels: GPU labels such as `GPU 0 (NVIDIA L4)`, by NVML's PCI address in lower case without the function.
    """

    events: tuple[Event, ...]
    labels: tuple[tuple[str, str], ...] = ()


def gpu_labels(gpus: Gpus) -> tuple[tuple[str, str], ...]:
    """Label and PCI address of each GPU, for `Reading`."""
    return tuple((_bus(gpu.info.pci_bus_id or ""), gpu.label) for gpu in gpus.states)


def find_xid_events(lines: tuple[tuple[float, str], ...]) -> tuple[Event, ...]:
    """Find Xid and SXid events, one per device and number, ordered by first occurrence."""
    found: dict[tuple[str, int, bool], Event] = {}
    for seconds, line in lines:
        of_switch = "SXid" in line
        match = (_SXID if of_switch else _XID).search(line)
        if match is None:
            continue
        key = (match[1], int(match[2]), of_switch)
        old = found.get(key)
        found[key] = Event(
            bus=match[1],
            number=int(match[2]),
            count=old.count + 1 if old else 1,
            first_s=old.first_s if old else seconds,
            last_s=seconds,
            text=(match[3] or "")[:_MAX_TEXT],
            of_switch=of_switch,
        )
    return tuple(found.values())


def evaluate(reading: Reading) -> Iterator[Finding]:
    """D610 Xid events of GPUs, D611 SXid events of NVSwitches."""
    labels = dict(reading.labels)
    by_bus: dict[str, list[Event]] = {}
    for event in reading.events:
        if event.of_switch:
            yield _switch(event)
        elif not _is_recovered(event):
            by_bus.setdefault(event.bus, []).append(event)
    for bus, events in by_bus.items():
        leaders = [event for event in events if event.number not in _FOLLOW_UP_EVENTS] or events
        followers = [event for event in events if event not in leaders]
        label = labels.get(_bus(bus), f"The GPU at {bus}")
        for event in leaders:
            yield _finding(event, label, followers)


def _finding(event: Event, label: str, followers: list[Event]) -> Finding:
    known = known_xids().get(event.number)
    evidence = tuple(_line(follower) for follower in (event, *followers))
    where = Location(device=label)
    programs = tuple(_programs((event, *followers)))
    if known is None:
        return Finding(
            "D610",
            Severity.NOTE,
            f"{label} reported Xid {event.number}, which GPUproof does not know.",
            evidence,
            "Look it up: https://docs.nvidia.com/deploy/xid-errors/analyzing-xid-catalog.html",
            where,
            programs,
        )
    times = "" if event.count == 1 else f", {event.count} times"
    return Finding(
        "D610",
        known.severity,
        f"{label} reported Xid {event.number}{times} since boot: {_lower(known.meaning)}.",
        evidence,
        ACTIONS[known.action].format(replacement=MOVE_TO_OTHER_HARDWARE),
        where,
        programs,
    )


def _programs(events: Iterable[Event]) -> Iterator[str]:
    """Names of the programs in the driver's messages: `pid=1234, name=python, Ch 00000008`."""
    return (program[1] for event in events for program in _PROGRAM.finditer(event.text) if program[1])


def _switch(event: Event) -> Finding:
    fatal = "non-fatal" not in event.text.lower() and "fatal" in event.text.lower()
    return Finding(
        "D611",
        Severity.ERROR if fatal else Severity.NOTE,
        f"The NVSwitch at {event.bus} reported SXid {event.number}"
        + (": GPUs cannot communicate through it." if fatal else ", which was not fatal."),
        (_line(event),),
        f"Reboot the machine. If it comes back, {MOVE_TO_OTHER_HARDWARE}" if fatal else None,
        Location(device=f"NVSwitch {event.bus}"),
    )


def _is_recovered(event: Event) -> bool:
    """Whether this is Xid 154 with the message that no recovery action is needed any more."""
    recovery = _RECOVERY.search(event.text) if event.number == 154 else None
    return recovery is not None and recovery[1] == _NO_ACTION


def _line(event: Event) -> str:
    name = "SXid" if event.of_switch else "Xid"
    times = "" if event.count == 1 else f" ({event.count} times, first after {event.first_s:.0f} s)"
    return f"{name} {event.number}, {event.last_s:.0f} s after boot{times}: {event.text}".rstrip(": ")


def _lower(text: str) -> str:
    return text if text[:2].isupper() else text[0].lower() + text[1:]


def _bus(address: str) -> str:
    """`0000:00:1e` of `00000000:00:1E.0` or `0000:00:1e`."""
    domain, _, rest = address.lower().partition(":")
    return f"{domain[-4:]}:{rest.partition('.')[0]}"
