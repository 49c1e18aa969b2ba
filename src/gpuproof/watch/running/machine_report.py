"""The report of `gpuproof watch --for`: the GPUs of a machine, and the programs that use them."""

from __future__ import annotations

import datetime
import textwrap
import time
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from gpuproof.agent.verdict import IDLE, OCCUPIED, UNKNOWN
from gpuproof.terminal.style import DIM, GREEN, RED, YELLOW, Style
from gpuproof.terminal.table import render_table
from gpuproof.util.humanize import format_bytes, format_duration, gpu_list, pluralize

VERSION = 1
KIND = "machine"
_HEADERS = ("pid", "user", "command", "GPU", "busy", "memory", "verdict", "waits for")
_RIGHT = (0, 4, 5)
_LONGEST_COMMAND = 40
_WAITS_FOR = {
    "one-core": "one CPU core",
    "all-cores": "the CPU",
    "disk": "storage",
    "shm": "shared memory",
    "throttling": "clocks",
    "imbalance": "another GPU",
    "unexplained": "unknown",
}
"""What the kinds of bottlenecks mean in the table."""


@dataclass(frozen=True)
class GpuUse:
    """A GPU while it was watched.

    Args:
        utilization: mean, in percent, of all processes; `None` if NVML does not report it.
        memory_used, memory_total: bytes, at the end.
        hidden_processes: processes of other containers, or of the host, that use it.
        processes_listed: whether NVML lists its processes with the ids that they have here; in a container, it does not.
        used_by_unknown: whether something used it that is not visible here, or may not be.
        error: why it could not be read.
    """

    index: int
    name: str | None
    uuid: str | None
    utilization: float | None
    memory_used: int | None
    memory_total: int | None
    hidden_processes: int = 0
    processes_listed: bool = True
    used_by_unknown: bool = False
    error: str | None = None


@dataclass(frozen=True)
class Program:
    """A program that used a GPU: a process with its descendants, a container, or a job of Slurm.

    Args:
        pid: its highest process.
        workload: such as `container 3f2a9c1b7d0e` or `Slurm job 17`; `None` for a process with its descendants.
        since: when that process started, in seconds since the epoch.
        has_ended: whether it ended while it was watched.
        gpus: the indexes of the GPUs that it has opened.
        utilization: mean, in percent, over the time in which it held them; `None` if unknown.
        memory: bytes on all its GPUs, at the end; `None` if unknown.
        verdict: content of `verdict.json`, on these GPUs.
    """

    pid: int
    user: str
    command: tuple[str, ...]
    workload: str | None
    since: float
    has_ended: bool
    gpus: tuple[int, ...]
    utilization: float | None
    memory: int | None
    verdict: Mapping[str, Any]

    @property
    def outcome(self) -> str:
        """The outcome of the verdict."""
        return str(self.verdict["outcome"])

    @property
    def is_idle(self) -> bool:
        """Whether it holds GPUs and does no work there."""
        return self.outcome in (IDLE, OCCUPIED) and not self.has_ended


@dataclass(frozen=True)
class MachineReport:
    """The GPUs of a machine while they were watched.

    Args:
        started: seconds since the epoch.
        more_processes: processes that used a GPU and were not judged, because there were too many programs.
        ended_earlier: programs that ended and made room for others.
        problem: why no GPU could be read; `None` if they were.
    """

    host: str
    started: float
    seconds: float = 0.0
    driver_version: str | None = None
    gpus: tuple[GpuUse, ...] = ()
    programs: tuple[Program, ...] = ()
    more_processes: int = 0
    ended_earlier: int = 0
    problem: str | None = None

    def to_json(self) -> dict[str, Any]:
        """The report as a JSON object; times in ISO 8601."""
        values = asdict(self)
        values["started"] = _timestamp(self.started)
        values["seconds"] = round(self.seconds, 3)
        for program in values["programs"]:
            program["since"] = _timestamp(program["since"])
        for use in (*values["gpus"], *values["programs"]):
            if use["utilization"] is not None:
                use["utilization"] = round(use["utilization"], 2)
        return {"version": VERSION, "kind": KIND, **values}


def machine_text(report: MachineReport, width: int = 0, colour: bool = False, unicode: bool = True) -> str:
    """The report as text, without a newline at the end.

    Args:
        width: characters per line; 0 for any number.
    """
    lines = [_headline(report)]
    if report.programs:
        style = Style(colour, width, unicode)
        rows = [_row(program) for program in report.programs]
        colours = [_colour(program) for program in report.programs]
        table = render_table(
            _HEADERS, rows, _RIGHT, style, lambda row, column: colours[row] if column == 6 else "", width
        )
        lines += ["", table, ""]
        details = ((program.pid, _details(program)) for program in report.programs)
        lines += [_paragraph(f"pid {pid}: {text}", width) for pid, text in details if text is not None]
    lines += [_paragraph(note, width) for note in _notes(report)]
    return "\n".join(lines).rstrip("\n")


def _headline(report: MachineReport) -> str:
    working = sum(program.verdict["gpus_working"] > 0 for program in report.programs)
    idle = [program for program in report.programs if program.is_idle]
    parts = [f"{pluralize(working, 'program')} worked"]
    if idle:
        held = sum(program.memory or 0 for program in idle)
        memory = f" ({format_bytes(held)})" if held else ""
        parts.append(f"{len(idle)} held {'memory' if held else 'a GPU'} without work{memory}")
    return f"{pluralize(len(report.gpus), 'GPU')} for {format_duration(report.seconds)}: {', '.join(parts)}."


def _row(program: Program) -> tuple[str, ...]:
    return (
        str(program.pid),
        program.user,
        _short(program),
        ",".join(map(str, program.gpus)) or "-",
        "-" if program.utilization is None else f"{program.utilization:.0f}%",
        "-" if program.memory is None else format_bytes(program.memory),
        program.outcome,
        _waits_for(program),
    )


def _short(program: Program) -> str:
    """The command without the folders of its program, or what runs it."""
    first, *rest = program.command
    text = " ".join([first.rpartition("/")[2], *rest]).replace("\n", " ")
    text = text if len(text) <= _LONGEST_COMMAND else text[: _LONGEST_COMMAND - 1] + "…"
    return f"{program.workload}: {text}" if program.workload else text


def _waits_for(program: Program) -> str:
    if program.is_idle:
        return "-"
    kinds = [str(bottleneck["kind"]) for bottleneck in program.verdict.get("bottlenecks") or ()]
    return _WAITS_FOR.get(kinds[0], kinds[0]) if kinds else "-"


def _details(program: Program) -> str | None:
    """A sentence about the program, if there is more to say than its row has."""
    verdict = program.verdict
    if program.is_idle:
        age = format_duration(max(0.0, time.time() - program.since))
        held = (
            f"holds {format_bytes(program.memory)}" if program.memory else f"holds {gpu_list(program.gpus)}"
        )
        return f"{held} and did no work while it was watched; it runs since {_local(program.since)} ({age})."
    if program.outcome == UNKNOWN:
        reason = str(verdict["reason"])
        return reason[:1].lower() + reason[1:]
    bottlenecks = verdict.get("bottlenecks") or ()
    if bottlenecks:
        return str(bottlenecks[0]["sentence"])
    return "it ended while it was watched." if program.has_ended else None


def _notes(report: MachineReport) -> Iterator[str]:
    unused = [gpu.index for gpu in report.gpus if not gpu.used_by_unknown and not gpu.error]
    held = {index for program in report.programs for index in program.gpus}
    free = [index for index in unused if index not in held]
    if free:
        yield f"{gpu_list(free)}: no process uses {'it' if len(free) == 1 else 'them'}."
    for gpu in report.gpus:
        if gpu.error is not None:
            yield f"GPU {gpu.index} could not be read: {gpu.error}."
        elif gpu.used_by_unknown:
            busy = "" if gpu.utilization is None else f"{gpu.utilization:.0f}% busy, "
            memory = "" if gpu.memory_used is None else f" ({busy}{format_bytes(gpu.memory_used)})"
            if not gpu.processes_listed:
                shown = (
                    "the programs above have opened it"
                    if gpu.index in held
                    else "no process that can be read here has opened it"
                )
                yield f"GPU {gpu.index} is in use{memory}; a container does not see by whom, and {shown}."
                continue
            also = "also " if gpu.index in held else ""
            yield f"GPU {gpu.index} is {also}used by processes that are not visible here, of another container or of the host{memory}."
    if report.ended_earlier:
        yield f"Programs that ended earlier and are not shown: {report.ended_earlier}."
    if report.more_processes:
        yield f"Processes that were not judged, as there are too many programs: {report.more_processes}."


def _paragraph(text: str, width: int) -> str:
    return textwrap.fill(text, width, subsequent_indent="  ", break_on_hyphens=False) if width > 40 else text


def _colour(program: Program) -> str:
    if program.has_ended:
        return DIM
    if program.is_idle:
        return RED
    return YELLOW if program.outcome == UNKNOWN else GREEN


def _timestamp(seconds: float) -> str:
    at = datetime.datetime.fromtimestamp(seconds, datetime.timezone.utc)
    return at.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _local(seconds: float) -> str:
    return datetime.datetime.fromtimestamp(seconds).astimezone().strftime("%Y-%m-%d %H:%M")
