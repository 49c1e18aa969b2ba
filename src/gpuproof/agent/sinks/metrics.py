"""What the sinks receive: the series with their units, points of them, and the summary of a verdict."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, Union


class Metric(NamedTuple):
    """One kind of series.

    Args:
        unit: as UCUM writes it (https://ucum.org/ucum), which is what OpenTelemetry uses; shares are `1`, from 0 to 1.
        label: what tells several series of the kind apart: `gpu`, `phase`, or nothing.
    """

    unit: str
    label: str
    help: str


METRICS = {
    "gpu_utilization": Metric(
        "1", "gpu", "Share of the time in which a kernel ran on the GPU (NVML utilization)."
    ),
    "gpu_working": Metric("1", "gpu", "Mean share of the GPU's multiprocessors that had work (SM active)."),
    "gpu_tensor_active": Metric("1", "gpu", "Share of the cycles in which the GPU's tensor cores worked."),
    "gpu_memory_used": Metric("By", "gpu", "Memory of the GPU in use."),
    "gpu_power": Metric("W", "gpu", "Power that the GPU draws."),
    "gpu_temperature": Metric("Cel", "gpu", "Temperature of the GPU."),
    "throughput": Metric("{example}/s", "", "Examples per second that the script has counted."),
    "step_seconds": Metric("s", "", "Mean time of a training step."),
    "step_share": Metric("1", "phase", "Share of the training steps' time that a phase takes."),
}
"""The series by name."""

Label = Union[int, str, None]


class Value(NamedTuple):
    """A value of a series: of a GPU (its index), of a phase (its name), or of the host."""

    metric: str
    label: Label
    value: float


@dataclass(frozen=True)
class Point:
    """The values of one moment.

    Args:
        at: seconds since the epoch.
        seconds: since monitoring began.
    """

    at: float
    seconds: float
    values: tuple[Value, ...]

    def to_json(self) -> dict[str, Any]:
        return {"at": self.at, "seconds": self.seconds, "values": [list(value) for value in self.values]}

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> Point:
        values = tuple(Value(*value) for value in document["values"])
        return cls(document["at"], document["seconds"], values)


@dataclass(frozen=True)
class Run:
    """The run, as a sink knows it. Folders are absolute paths outside of the script's mount namespace.

    Args:
        host: such as `algo-1`; `hosts` is how many there are.
        started: when monitoring began, in seconds since the epoch.
        contract: the folder that the script sees as `/opt/ml`.
        code: the script's working directory.
        output: a folder for files of a sink that become part of the run's output.
        entry_point: the script.
        target: what follows `=` in the job's `sinks`; a folder for TensorBoard.
        gpus: name and UUID by index; `None` where unknown.
    """

    id: str
    job_name: str
    host: str
    hosts: int
    started: float
    contract: str
    code: str
    output: str
    entry_point: str = ""
    instance_type: str | None = None
    target: str | None = None
    gpus: Mapping[str, Mapping[str, str | None]] | None = None


class Writer(Protocol):
    """A sink. Any exception ends it, and becomes a note of the run."""

    location: str | None
    """Where the run's values are: an address, a file or a run's id."""

    def write(self, point: Point) -> None:
        """Pass on a point."""
        ...

    def finish(self, summary: Mapping[str, float | str] | None, verdict: Mapping[str, Any] | None) -> None:
        """Pass on the summary and close.

        Args:
            summary: `None` if the agent ended without a verdict.
        """
        ...


def key(value: Value, run: Run) -> str:
    """The name of a series in a tracker, such as `gpuproof/gpu0/utilization`; with several hosts, also the host's."""
    name = value.metric
    if METRICS[name].label == "gpu":
        name = f"gpu{value.label}/{name[len('gpu_') :]}"
    elif value.label is not None:
        name = f"{name.replace('_', '/', 1)}/{value.label}"
    return f"{prefix(run)}{name}"


def prefix(run: Run) -> str:
    """How the names of a run's values in a tracker begin."""
    return "gpuproof/" if run.hosts == 1 else f"gpuproof/{run.host}/"


_NUMBERS = ("gpus_expected", "gpus_working", "gpus_present", "seconds")
_GPU_NUMBERS = ("mean_utilization", "peak_memory", "mean_power_w", "max_power_w", "first_use_s", "busy_s")


def summary_of(verdict: Mapping[str, Any], status: str, exit_code: int) -> dict[str, float | str]:
    """The numbers of a `verdict.json` by name, with its outcome and reason.

    Args:
        status: of the run, as SageMaker names it.
    """
    summary: dict[str, float | str] = {
        "status": status,
        "exit_code": exit_code,
        "outcome": verdict["outcome"],
        "reason": verdict["reason"],
    }
    met = verdict.get("gpu_requirement_met")
    if met is not None:
        summary["gpu_requirement_met"] = int(met)
    summary.update(_numbers(verdict, _NUMBERS))
    for gpu in verdict.get("gpus", ()):
        summary.update(
            {f"gpu{gpu['index']}/{name}": value for name, value in _numbers(gpu, _GPU_NUMBERS).items()}
        )
        working = (gpu.get("activity") or {}).get("working_share")
        if working is not None:
            summary[f"gpu{gpu['index']}/working"] = working
    if verdict.get("throughput"):
        summary["examples_per_s"] = verdict["throughput"]["examples_per_s"]
    if verdict.get("mfu"):
        summary["mfu"] = verdict["mfu"]["share"]
    summary.update(_steps(verdict.get("steps") or {}))
    return summary


def _numbers(document: Mapping[str, Any], names: tuple[str, ...]) -> dict[str, float]:
    return {name: document[name] for name in names if isinstance(document.get(name), (int, float))}


def _steps(steps: Mapping[str, Any]) -> Iterator[tuple[str, float]]:
    total = steps.get("total") or {}
    seconds = total.get("seconds")
    if not seconds:
        return
    yield "steps", total["steps"]
    for phase, spent in total["phases"].items():
        yield f"step/share/{phase}", round(spent / seconds, 4)
