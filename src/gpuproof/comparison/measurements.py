"""What a run measured and how it was set up, as plain values that a comparison takes and a baseline keeps."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from statistics import fmean, median
from typing import Any, Literal, NamedTuple

from gpuproof.agent.verdict import GpuVerdict, Verdict
from gpuproof.agent.verdict.evidence import PHASES, Steps
from gpuproof.util.humanize import format_bytes, format_energy, format_rate, format_seconds, format_usd
from gpuproof.util.redaction import HIDDEN, is_secret_argument

COMPLETED = "Completed"


class Measure(NamedTuple):
    """A quantity that runs are compared by.

    Attributes:
        name: a key of JSON documents.
        label: for people.
        format: a value as text.
        better: which values are better; `None` if neither is.
    """

    name: str
    label: str
    format: Callable[[float], str]
    better: Literal["lower", "higher"] | None = "lower"


def _percent(share: float) -> str:
    return f"{100 * share:.3g}%"


def _watts(power: float) -> str:
    return f"{power:.0f} W"


def _ratio(value: float) -> str:
    return f"{value:.2f}x"


_PHASE_LABELS = {"input": "input wait", "copy": "host to device"}

MEASURES = {
    measure.name: measure
    for measure in (
        Measure("examples_per_s", "examples/s", format_rate, "higher"),
        Measure("step_s", "step", format_seconds),
        *(Measure(f"{phase}_s", f"  {_PHASE_LABELS.get(phase, phase)}", format_seconds) for phase in PHASES),
        Measure("script_s", "script", format_seconds),
        Measure("mfu", "MFU", _percent, "higher"),
        Measure("utilization", "GPU busy", _percent, None),
        Measure("sm_active", "SM active", _percent, None),
        Measure("tensor_active", "tensor active", _percent, None),
        Measure("dram_active", "DRAM active", _percent, None),
        Measure("power_w", "GPU power", _watts, None),
        Measure("gpu_memory_bytes", "GPU memory", format_bytes),
        Measure("host_memory_bytes", "host memory", format_bytes),
        Measure("energy_j", "GPU energy", format_energy),
        Measure("usd", "cost", format_usd),
        Measure("usd_per_million_examples", "cost of 1M examples", format_usd),
        Measure("planned_step_ratio", "step by plan", _ratio, None),
        Measure("planned_memory_ratio", "memory by plan", _ratio, None),
    )
}
"""By name, in the order in which they are shown. The last two are what was measured, divided by what was planned."""


@dataclass(frozen=True)
class RunMeasurements:
    """One run.

    Args:
        run: its id, or the path of its verdict.
        job: its job's name, if it is known.
        status: such as `Completed`; `None` if only its verdict is known.
        outcome: of its verdict.
        values: by the name of a measure.
        windows: values of consecutive windows, by the name of a measure.
        settings: versions, arguments and everything else that may explain a difference, by name.
    """

    run: str
    job: str | None = None
    status: str | None = None
    outcome: str | None = None
    values: Mapping[str, float] = field(default_factory=dict[str, float])
    windows: Mapping[str, tuple[float, ...]] = field(default_factory=dict[str, tuple[float, ...]])
    settings: Mapping[str, str] = field(default_factory=dict[str, str])

    @property
    def is_whole(self) -> bool:
        """Whether it ran to its end, as far as is known."""
        return self.status in (None, COMPLETED)

    def to_json(self) -> dict[str, Any]:
        """Plain values for `json.dump`."""
        return asdict(self)

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> RunMeasurements:
        """Convert the result of `to_json` back; unknown keys are ignored.

        Raises:
            KeyError, TypeError, ValueError: it is something else.
        """
        names = {each.name for each in fields(cls)}
        known = {name: value for name, value in document.items() if name in names}
        known["values"] = {str(name): float(value) for name, value in document["values"].items()}
        known["windows"] = {
            str(name): tuple(map(float, values)) for name, values in document["windows"].items()
        }
        known["settings"] = {str(name): str(value) for name, value in document["settings"].items()}
        return cls(**known)


def measurements(
    run: str,
    verdict: Verdict | None,
    record: Mapping[str, Any],
    planned: Mapping[str, Any] | None = None,
) -> RunMeasurements:
    """What a run measured.

    Args:
        verdict: of the run, if it has one.
        record: its `run.json`; empty if it is unknown.
        planned: the comparison with its plan, an entry of the history of `gpuproof plan`.
    """
    values = {} if verdict is None else dict(_of_verdict(verdict))
    started, ended = record.get("script_started"), record.get("script_ended") or record.get("ended")
    if isinstance(started, (int, float)) and isinstance(ended, (int, float)):
        values["script_s"] = ended - started
    elif verdict is not None:
        values["script_s"] = verdict.seconds
    if (usd := record.get("cost_usd")) is not None:
        values["usd"] = usd
        if verdict is not None and verdict.throughput is not None and verdict.throughput.examples:
            values["usd_per_million_examples"] = 1e6 * usd / verdict.throughput.examples
    for name in ("step", "memory"):
        if found := (planned or {}).get("time" if name == "step" else name):
            values[f"planned_{name}_ratio"] = found["measured"] / found["shown"][1]
    return RunMeasurements(
        run=run,
        job=record.get("job_name"),
        status=record.get("status"),
        outcome=verdict.outcome if verdict is not None else record.get("verdict"),
        values={name: value for name, value in values.items() if value > 0},
        windows={} if verdict is None else dict(_windows(verdict)),
        settings=dict(_settings(verdict, record)),
    )


def _of_verdict(verdict: Verdict) -> Iterator[tuple[str, float]]:
    if verdict.throughput is not None:
        yield "examples_per_s", verdict.throughput.examples_per_s
    if (steps := verdict.steps) is not None and steps.total.steps:
        yield "step_s", steps.total.seconds / steps.total.steps
        for phase, seconds in steps.total.phases.items():
            yield f"{phase}_s", seconds / steps.total.steps
    if verdict.mfu is not None:
        yield "mfu", verdict.mfu.share
    working = [gpu for gpu in verdict.gpus if gpu.worked]
    yield from _means(working)
    peaks = [gpu.peak_memory for gpu in working if gpu.peak_memory and not gpu.others_present]
    if peaks:
        yield "gpu_memory_bytes", max(peaks)
    if verdict.processes is not None:
        yield "host_memory_bytes", verdict.processes.peak_rss
    if verdict.energy is not None:
        yield "energy_j", verdict.energy.joules


def _means(working: Sequence[GpuVerdict]) -> Iterator[tuple[str, float]]:
    """Means over the GPUs that worked, of what is known of all of them."""
    for name, values in (
        (
            "utilization",
            [None if gpu.mean_utilization is None else gpu.mean_utilization / 100 for gpu in working],
        ),
        ("power_w", [gpu.mean_power_w for gpu in working]),
        *(
            (name, [getattr(gpu.intensity, name, None) for gpu in working])
            for name in ("sm_active", "tensor_active", "dram_active")
        ),
    ):
        known = [value for value in values if value is not None]
        if known and len(known) == len(values):
            yield name, fmean(known)


def _windows(verdict: Verdict) -> Iterator[tuple[str, tuple[float, ...]]]:
    if verdict.throughput is not None and verdict.throughput.windows:
        yield "examples_per_s", verdict.throughput.windows
    if verdict.steps is not None and (times := _step_windows(verdict.steps)):
        yield "step_s", times


def _step_windows(steps: Steps) -> tuple[float, ...]:
    """The mean time of a step in each window of the first rank: all ranks of synchronous training take the same steps.

    The last window of a run may be short, and vary more than the others.
    """
    windows = [window for rank in steps.ranks[:1] for window in rank.windows if window.steps]
    if not windows:
        return ()
    usual = median(window.seconds for window in windows)
    return tuple(window.seconds / window.steps for window in windows if window.seconds >= usual / 2)


_RECORDED = ("backend", "instance_type", "region", "spot", "image")


def _settings(verdict: Verdict | None, record: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for name in _RECORDED:
        if (value := record.get(name)) not in (None, "", False):
            yield name, str(value)
    if (count := record.get("instance_count") or 1) > 1:
        yield "instance_count", str(count)
    if verdict is not None:
        yield from _machine(verdict)
    for name, version in (record.get("frameworks") or {}).items():
        yield name, str(version)
    yield from _provenance(record.get("provenance") or {})
    for name, value in script_arguments(record.get("command") or ()):
        yield f"argument {name}", value
    for name, value in (record.get("variables") or {}).items():
        yield f"environment {name}", str(value)


def _machine(verdict: Verdict) -> Iterator[tuple[str, str]]:
    names = sorted({gpu.name for gpu in verdict.gpus if gpu.worked and gpu.name})
    if names:
        yield "gpu", ", ".join(names)
    if verdict.gpus_working:
        yield "gpus_working", str(verdict.gpus_working)
    for name in ("driver_version", "cuda_compat", "cpu_count"):
        if (value := getattr(verdict, name)) is not None:
            yield name, str(value)
    if verdict.mfu is not None:
        yield "precision", verdict.mfu.precision


def _provenance(found: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """GPUproof's version, and what the code was, as recorded at the submission."""
    if version := found.get("gpuproof"):
        yield "gpuproof", str(version)
    if isinstance(code := found.get("code"), Mapping) and (digest := code.get("sha256")):
        yield "code", str(digest)[:12]
    if isinstance(git := found.get("git"), Mapping) and (commit := git.get("commit")):
        yield "commit", str(commit)[:12] + (" with changes" if git.get("dirty") else "")


_SCRIPTS = (".py", ".sh")


def script_arguments(command: Sequence[str]) -> Iterator[tuple[str, str]]:
    """The arguments of a script by name, hyperparameters among them; those without a name by their number.

    Values that look like secrets are hidden: a baseline is committed.

    Args:
        command: that started it, with a launcher or an interpreter before the script.
    """
    first = next((index for index, word in enumerate(command) if word.endswith(_SCRIPTS)), 0)
    words = list(command[first + 1 :])
    position = 0
    while words:
        word = words.pop(0)
        if not word.startswith("-") or _is_number(word):
            position += 1
            yield str(position), HIDDEN if is_secret_argument("", word) else word
            continue
        name, equals, value = word.partition("=")
        if not equals:
            value = "yes"
            if words and (not words[0].startswith("-") or _is_number(words[0])):
                value = words.pop(0)
        yield name, HIDDEN if is_secret_argument(name, value) else value


def _is_number(word: str) -> bool:
    try:
        float(word)
    except ValueError:
        return False
    return True
