"""The types of a live view: one snapshot of a run or of this machine, which converts to JSON."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from gpuproof.gpu.history import NAMES, History
from gpuproof.timestamps import iso_time, with_iso_times

VERSION = 1
HISTORY = 900
"""Values that are kept of each GPU: a quarter of an hour of seconds."""


@dataclass(frozen=True)
class GpuView:
    """A GPU now.

    Args:
        count: of how many GPUs these are the means; CloudWatch has no values of single GPUs.
        utilization: percent; memory in bytes, power in watts, temperature in degrees Celsius; `None` if unknown, as all values.
        waiting_for: `kind` and `text`; `None` if it works, or too little is known.
        error: why it could not be read.
        utilization_history, memory_history: earlier values at `Snapshot.times`.
    """

    index: int
    count: int = 1
    name: str | None = None
    utilization: float | None = None
    memory_used: int | None = None
    memory_total: int | None = None
    power_w: float | None = None
    temperature_c: float | None = None
    waiting_for: Mapping[str, str] | None = None
    error: str | None = None
    utilization_history: tuple[float | None, ...] = field(default=(), repr=False)
    memory_history: tuple[float | None, ...] = field(default=(), repr=False)


@dataclass(frozen=True)
class ProgramView:
    """A program that uses GPUs of this machine; see `gpuproof.watch.running.machine_report.Program`.

    Args:
        memory: bytes on its GPUs.
        cores: cores that it keeps busy; `rss` its resident bytes.
        waiting_for: of the GPU that waits, as in `GpuView`.
    """

    pid: int
    user: str
    command: tuple[str, ...]
    workload: str | None
    gpus: tuple[int, ...]
    memory: int | None
    cores: float | None
    rss: int | None
    waiting_for: Mapping[str, str] | None = None


@dataclass(frozen=True)
class HostView:
    """A host now.

    Args:
        cores: cores that the run, or all processes of this machine, keep busy; `rss` is their memory in bytes.
        cpu_count, memory_total: of the host; `None` for a host of a run.
        programs: only of this machine.
    """

    name: str
    gpus: tuple[GpuView, ...] = ()
    cores: float | None = None
    cpu_count: int | None = None
    rss: int | None = None
    memory_total: int | None = None
    programs: tuple[ProgramView, ...] = ()


@dataclass(frozen=True)
class Readings:
    """Where the values of the GPUs come from, and how old they are.

    Args:
        source: `agent`, `nvml`, `s3` or `cloudwatch`.
        every_s: seconds between two values.
        newest: time of the newest value, in seconds since the epoch; `None` before the first one.
        problem: why there are none, as a sentence.
    """

    source: str
    every_s: float = 1.0
    newest: float | None = None
    problem: str | None = None


@dataclass(frozen=True)
class Outcome:
    """How a run ended.

    Args:
        exit_code: that of `gpuproof run`.
        text: why it did not complete, or why it counts as failed; `None` if it is fine.
        verdict: content of `verdict.json`; `None` if there is none.
    """

    exit_code: int
    text: str | None = None
    verdict: Mapping[str, Any] | None = field(default=None, repr=False)


@dataclass(frozen=True)
class Snapshot:
    """A run or a machine at one moment.

    Args:
        kind: `run` or `machine`.
        name: the run's id, or the machine's name.
        time: when it was taken, in seconds since the epoch.
        seconds: since the script, or the view of this machine, started.
        message: what the backend says of the status.
        cost_usd: so far; `None` if nothing is billed, or if it is unknown.
        hosts: those that are known, in their order.
        times: of the histories of all GPUs, as `seconds`.
        log: the last lines of the output, without colours and other control sequences.
        notices: what the backend has said, such as that a connection was lost.
        outcome: `None` until the run has ended.
    """

    kind: str
    name: str
    time: float = field(default_factory=time.time)
    seconds: float | None = None
    backend: str | None = None
    instance: str | None = None
    status: str | None = None
    secondary_status: str | None = None
    message: str | None = None
    cost_usd: float | None = None
    cost_is_derived: bool = False
    hosts: tuple[HostView, ...] = ()
    times: tuple[float, ...] = field(default=(), repr=False)
    readings: Readings | None = None
    log: tuple[str, ...] = field(default=(), repr=False)
    notices: tuple[str, ...] = ()
    outcome: Outcome | None = None

    @property
    def gpu_count(self) -> int:
        """The number of GPUs of all hosts."""
        return sum(gpu.count for host in self.hosts for gpu in host.gpus)

    def to_json(self, *, history: bool = True) -> dict[str, Any]:
        """The snapshot as a JSON object, version 1, with hosts by name and times in ISO 8601.

        Args:
            history: with the earlier values.
        """
        document = asdict(self)
        hosts: dict[str, Any] = {}
        for host in document.pop("hosts"):
            hosts[host.pop("name")] = host
            for gpu in host["gpus"]:
                for name in ("utilization_history", "memory_history"):
                    values = gpu.pop(name)
                    if history:
                        gpu[name] = values
        if not history:
            del document["times"]
        document["readings"] = document["readings"] and {
            **document["readings"],
            "newest": iso_time(document["readings"]["newest"]),
        }
        if document["outcome"] and document["outcome"]["verdict"]:
            document["outcome"]["verdict"] = with_iso_times(document["outcome"]["verdict"])
        return {"version": VERSION, **document, "time": iso_time(self.time), "hosts": hosts}


def gpu_view(host: str, values: Mapping[str, Any], history: History) -> GpuView:
    """A GPU of a live sample; keys that the sample lacks are unknown."""
    index = int(values["index"])
    return GpuView(
        index=index,
        count=int(values.get("count", 1)),
        name=values.get("name"),
        utilization=values.get("utilization"),
        memory_used=values.get("memory_used"),
        memory_total=values.get("memory_total"),
        power_w=values.get("power_w"),
        temperature_c=values.get("temperature_c"),
        waiting_for=values.get("waiting_for"),
        error=values.get("error"),
        utilization_history=history.of(host, index, "utilization"),
        memory_history=history.of(host, index, "memory_used"),
    )


def history_values(
    gpus: Sequence[tuple[str, Mapping[str, Any]]],
) -> dict[tuple[str, int, str], float | None]:
    """What `History.add` takes, of the GPUs of a sample with their hosts."""
    return {(host, int(gpu["index"]), name): gpu.get(name) for host, gpu in gpus for name in NAMES}
