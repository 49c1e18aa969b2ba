"""The report on a watched program: the verdict, and the facts of the program and its machine."""

from __future__ import annotations

import datetime
import os
import socket
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from typing import Any

from gpuproof.agent.verdict import Verdict
from gpuproof.agent.verdict.events import exit_event
from gpuproof.util.humanize import format_usd, pluralize

VERSION = 1
KIND = "watch"
GPU_UNUSED_EXIT = 4
"""Exit code if a required GPU did no work: the program ended well, or was ended for it; `gpuproof run` has the same."""
STALLED_EXIT = 124
"""Exit code of a program that was ended because it made no progress; timeout(1) has the same."""
STOPPED_UNUSED, STALLED = "gpu-unused", "stalled"
"""Why a program was ended."""


@dataclass(frozen=True)
class Instance:
    """The EC2 or SageMaker instance on which a program ran.

    Args:
        type: such as `g5.xlarge` or `ml.g5.xlarge`.
        life_cycle: `on-demand` or `spot`; `None` if unknown.
    """

    type: str
    region: str | None = None
    life_cycle: str | None = None


@dataclass(frozen=True)
class WatchReport:
    """What a program did with its GPUs.

    Args:
        verdict: content of `verdict.json`.
        command: the program with its arguments; `None` if it was attached to.
        pid: the program's process id on its host.
        started: seconds since the epoch.
        exit_code: `None` if it is unknown, or if a signal killed the program.
        stopped_because: `STOPPED_UNUSED` or `STALLED` if GPUproof ended the program.
        hosts: number of hosts of the job.
    """

    verdict: Mapping[str, Any]
    command: tuple[str, ...] | None = None
    pid: int | None = None
    host: str = ""
    group: str | None = None
    hosts: int = 1
    started: float = 0.0
    seconds: float = 0.0
    exit_code: int | None = None
    signal: int | None = None
    stopped_because: str | None = None
    instance: Instance | None = None
    cost_usd: float | None = None
    notes: tuple[str, ...] = ()

    @classmethod
    def of(cls, verdict: Verdict, **facts: Any) -> WatchReport:
        """The report on a program of this machine; `facts` are fields of the report."""
        code = -facts["signal"] if facts.get("signal") else facts.get("exit_code")
        if code is not None:
            is_failure = code != 0 and facts.get("stopped_because") is None
            end = exit_event(verdict.seconds, code, is_failure=is_failure)
            verdict = replace(verdict, events=(*verdict.events, end))
        return cls(verdict.to_json(), host=socket.gethostname(), seconds=verdict.seconds, **facts)

    def to_json(self) -> dict[str, Any]:
        """The report as a JSON object; `started` in ISO 8601."""
        values = asdict(self)
        verdict = values.pop("verdict")
        started = datetime.datetime.fromtimestamp(self.started, datetime.timezone.utc)
        values["started"] = started.isoformat(timespec="milliseconds").replace("+00:00", "Z")
        values["seconds"] = round(self.seconds, 3)
        return {"version": VERSION, "kind": KIND, **values, "verdict": verdict}

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> WatchReport:
        """The report in a JSON object; unknown keys are ignored.

        Raises:
            ValueError: it is no report, or one of an unknown version.
        """
        if document.get("kind") != KIND or not isinstance(document.get("verdict"), Mapping):
            raise ValueError("it is no report of gpuproof watch")
        if document.get("version") != VERSION:
            raise ValueError(f"version {document.get('version')} is unknown")
        known = {attribute.name for attribute in fields(cls)}
        values = {key: value for key, value in document.items() if key in known}
        instance, command = values.get("instance"), values.get("command")
        values["instance"] = Instance(**instance) if isinstance(instance, dict) else None
        values["command"] = tuple(command) if isinstance(command, list) else None
        values["notes"] = tuple(values.get("notes") or ())
        text = str(values.get("started", "1970-01-01T00:00:00Z")).replace("Z", "+00:00")
        values["started"] = datetime.datetime.fromisoformat(text).timestamp()
        return cls(**values)

    @property
    def requirement_met(self) -> bool | None:
        """Whether the required GPUs did work; `None` if unknown."""
        met = self.verdict.get("gpu_requirement_met")
        return met if isinstance(met, bool) else None


def exit_code(code: int, report: WatchReport) -> int:
    """The exit code of `gpuproof watch`.

    Args:
        code: that of the program; minus the number of the signal that killed it.
    """
    if report.stopped_because is not None:
        return GPU_UNUSED_EXIT if report.stopped_because == STOPPED_UNUSED else STALLED_EXIT
    return GPU_UNUSED_EXIT if code == 0 and report.requirement_met is False else code


def report_text(report: WatchReport, width: int = 100, colour: bool = False, unicode: bool = True) -> str:
    """The report as text: the verdict with a label, without a newline at the end."""
    from gpuproof.terminal.style import LABEL_WIDTH
    from gpuproof.terminal.verdict import render  # a program that is only attached to prints none

    lines = [render(report.verdict, width, colour, unicode)]
    if report.group is not None and report.hosts > 1:
        where = report.host or f"all {report.hosts} hosts"
        lines.insert(0, f"{'job':<{LABEL_WIDTH}}{report.group}, {where}")
    if report.cost_usd is not None:
        cost = f"{format_usd(report.cost_usd)} on {_instances_text(report)}"
        lines.append(f"{'cost':<{LABEL_WIDTH}}{cost}")
    return "\n".join([*lines, *report.notes])


def _instances_text(report: WatchReport) -> str:
    # The report on a host of a job has its name; the one on the whole job has none.
    count = 1 if report.host else report.hosts
    if report.instance is None:
        return pluralize(count, "instance")
    return f"{count} x {_instance_text(report.instance)}" if count > 1 else _instance_text(report.instance)


def _instance_text(instance: Instance) -> str:
    name = f"{instance.type} in {instance.region}" if instance.region else instance.type
    return f"{name} ({instance.life_cycle})" if instance.life_cycle else name


def read_environment(pid: int) -> dict[str, str]:
    """The variables with which a process was started; empty without permission."""
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:  # noqa: PTH123 - bytes of another process
            entries = file.read().split(b"\0")
    except OSError:
        return {}
    pairs = (os.fsdecode(entry).partition("=") for entry in entries if b"=" in entry)
    return {name: value for name, _, value in pairs}
