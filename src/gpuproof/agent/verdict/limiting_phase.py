"""Finds the phase of the steps that limited a run, with the line of the script that explains it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from gpuproof.agent.verdict.bottlenecks import ALL_CORES, DISK, GUESSES, ONE_CORE, Cause, waiting_cause
from gpuproof.agent.verdict.evidence import (
    LAUNCH_BOUND,
    SYNCHRONIZATION,
    CodeLocation,
    Steps,
)
from gpuproof.agent.verdict.schema import Bottleneck, GpuVerdict
from gpuproof.agent.verdict.stragglers import straggler_bottleneck
from gpuproof.gpu.telemetry import Waiting
from gpuproof.util.humanize import format_seconds, format_share, pluralize

PHASE_NAMES = {"input": "input wait", "copy": "host to device"}
"""Names for people of phases that are not called what they are."""

_LONG_ENOUGH_S = 2.0
_ENOUGH_STEPS = 10
"""Fewer steps, or a shorter time, are mostly the first step, which compiles and fills caches."""
_LEAST_SHARES = {
    # Avoidable losses: a loader that keeps up, pinned memory and asynchronous saving cost next to nothing.
    **dict.fromkeys(("input", "copy", "checkpoint", SYNCHRONIZATION), 0.10),
    # A part of an all-reduce stays exposed in sound jobs, too: the buckets of the first layers come last.
    "communication": 0.20,
    # Evaluation is work that was asked for; so are short kernels in small models.
    **dict.fromkeys(("evaluation", LAUNCH_BOUND), 0.30),
}
"""The least share of the time of the steps that is reported."""
_IN_EACH_STEP = 0.5
"""A call counts as one of each step if it ran in at least this share of them."""
_COMPUTE = ("forward", "backward", "optimizer", "rest")
_COMPUTE_SHARE = 0.5
_ALL_CORES = 0.9
_MOST_WORKERS = 8


class Machine(NamedTuple):
    """What the bottleneck's explanation needs to know about the host.

    Attributes:
        seconds: how long the run was monitored.
        cpu_count: its vCPUs.
        cores: how many of them the job kept busy, on average.
    """

    seconds: float
    cpu_count: int | None
    cores: float
    gpus: Sequence[GpuVerdict]
    waiting: Waiting


class _Candidate(NamedTuple):
    kind: str
    name: str
    share: float
    location: CodeLocation | None


def with_limiting_phase(
    found: Sequence[Bottleneck], steps: Steps | None, machine: Machine
) -> tuple[Bottleneck, ...]:
    """The bottlenecks of a host, with what the steps say in the place of guesses from the activity of the CPU and the disk."""
    limit = limiting_phase(steps, machine) if steps is not None else None
    if limit is None:
        return tuple(found)
    guess = next((bottleneck.kind for bottleneck in found if bottleneck.kind in GUESSES), None)
    limit = replace(limit, numbers={**limit.numbers, "while": guess})
    said = {*GUESSES, limit.kind}
    return (limit, *(bottleneck for bottleneck in found if bottleneck.kind not in said))


def limiting_phase(steps: Steps, machine: Machine) -> Bottleneck | None:
    """The phase in which most time was lost; `None` if no phase cost enough to be one."""
    total, straggler = steps.total, steps.straggler
    if total.seconds < _LONG_ENOUGH_S or total.steps < _ENOUGH_STEPS:
        return None
    candidates = [
        candidate
        for candidate in _candidates(steps, machine)
        if candidate.share >= _LEAST_SHARES[candidate.kind]
        # The others wait in their collective operations.
        and not (straggler is not None and candidate.kind == "communication")
    ]
    worst = max(candidates, key=lambda candidate: candidate.share, default=None)
    if straggler is not None and (worst is None or straggler.share >= worst.share):
        return straggler_bottleneck(straggler, len(steps.ranks), machine.seconds)
    if worst is None:
        return None
    head = f"{worst.name} {format_share(worst.share)}"
    reason = _reason(worst, steps, machine)
    return Bottleneck(
        worst.kind,
        f"{head}: {reason}." if reason else f"{head}.",
        _numbers(worst, steps, machine),
        head=head,
    )


def longest_location(steps: Steps, name: str) -> CodeLocation | None:
    """The line of the script that explains a phase: of the rank in which it took the longest."""
    found = [rank.locations[name] for rank in steps.ranks if name in rank.locations]
    return max(found, key=lambda location: location.seconds, default=None)


def _candidates(steps: Steps, machine: Machine) -> list[_Candidate]:
    total, waited = steps.total, _waited_share(machine)
    # A GPU that is busy all the time has enough work in its queue while the script waits for input, or for it.
    starved = waited is None or waited >= _LEAST_SHARES["input"]
    phases = ["copy", "evaluation", "checkpoint", "communication", *(["input"] if starved else [])]
    found = [
        _Candidate(
            name,
            PHASE_NAMES.get(name, name),
            total.phases.get(name, 0.0) / total.seconds,
            longest_location(steps, name),
        )
        for name in phases
    ]
    if waited is not None and starved:
        found += _waits_of_the_gpu(steps, machine, waited)
    return found


def _waits_of_the_gpu(steps: Steps, machine: Machine, waited: float) -> list[_Candidate]:
    """What leaves a GPU without work in the middle of a step, which no clock of a phase shows."""
    total = steps.total
    compute = sum(total.phases.get(name, 0.0) for name in _COMPUTE) / total.seconds
    gap = min(max(waited - (1 - compute), 0.0), compute)
    location = longest_location(steps, SYNCHRONIZATION)
    if (
        location is not None
        and location.count >= _IN_EACH_STEP * total.steps
        and location.seconds >= _LEAST_SHARES[SYNCHRONIZATION] * total.seconds
    ):
        # Waiting for the GPU is no loss: the loss is the time in which it waits for its next kernel afterwards.
        return [_Candidate(SYNCHRONIZATION, SYNCHRONIZATION, gap, location)]
    kinds = [gpu.activity.kind for gpu in machine.gpus if gpu.worked and gpu.activity is not None]
    cause = waiting_cause(machine.waiting)
    launches = kinds.count(LAUNCH_BOUND) * 2 > len(kinds) if kinds else False
    one_core = cause is not None and cause.kind == ONE_CORE
    if compute >= _COMPUTE_SHARE and (launches or one_core):
        return [_Candidate(LAUNCH_BOUND, LAUNCH_BOUND, gap, None)]
    return []


def _waited_share(machine: Machine) -> float | None:
    """The share of the time in which the job's GPUs waited; `None` if it is unknown, or if there is none."""
    waiting = machine.waiting
    if waiting.held_s < _LONG_ENOUGH_S or not any(gpu.touched for gpu in machine.gpus):
        return None
    return waiting.waiting_s / waiting.held_s


def _reason(worst: _Candidate, steps: Steps, machine: Machine) -> str:
    location = worst.location
    if worst.kind == "input":
        return _input(location, steps, machine)
    if worst.kind == LAUNCH_BOUND:
        return _launches(machine)
    if location is None:
        return _WITHOUT_LINE.get(worst.kind, "")
    line = f"{location.what} at {location.path}:{location.line}"
    if worst.kind == "copy":
        return f"{line} {_copy(location)}"
    if worst.kind == SYNCHRONIZATION:
        return (
            f"{line} waits for the GPU in each step, which then waits for its next kernel: keep the value on the "
            "GPU, and read it every few hundred steps"
        )
    if worst.kind == "communication":
        return f"{line}: {_WITHOUT_LINE['communication']}"
    times = f"{line} ran {pluralize(location.count, 'time')}"
    if location.count:
        times += f", {format_seconds(location.seconds / location.count)} each"
    return f"{times}: {_WITHOUT_LINE[worst.kind]}"


_WITHOUT_LINE = {
    "copy": "copy from pinned memory (pin_memory=True) with non_blocking=True",
    "evaluation": "evaluate less often, or on a part of the data",
    "checkpoint": "save less often, or in the background",
    "communication": "bigger batches, gradient accumulation or compression let the ranks exchange gradients less often",
}


def _copy(location: CodeLocation) -> str:
    settings = location.settings
    if settings.get("pinned") is False:
        return "copies from pageable memory: set pin_memory=True in the DataLoader, and non_blocking=True"
    if settings.get("non_blocking") is False:
        return "waits for each copy: set non_blocking=True"
    return "copies more than the GPU computes on: send smaller types, and convert on the GPU"


def _launches(machine: Machine) -> str:
    cause = waiting_cause(machine.waiting)
    who = f" while {cause.text}" if cause is not None and cause.kind == ONE_CORE else ""
    return (
        f"the GPU waited for its next kernel{who}: bigger batches, or fewer and longer kernels (torch.compile, "
        "CUDA graphs, jit_compile=True)"
    )


def _input(location: CodeLocation | None, steps: Steps, machine: Machine) -> str:
    cause = _input_cause(machine)
    text = cause.text if cause is not None else ""
    if location is None:
        return f"{text or 'the loop waited for its next batch'}: {_more_workers(machine, None)}"
    line = f"{location.what} at {location.path}:{location.line}"
    problem, advice = _loader(location, steps, machine, cause)
    return f"{line} {problem}" + (f", while {text}" if text else "") + f": {advice}"


def _loader(location: CodeLocation, steps: Steps, machine: Machine, cause: Cause | None) -> tuple[str, str]:
    """What is wrong with a loader, and what to do about it."""
    settings, vcpus = location.settings, machine.cpu_count
    there = f"; the instance has {pluralize(vcpus, 'vCPU')}" if vcpus else ""
    for name in ("num_workers", "workers"):
        workers = settings.get(name)
        if isinstance(workers, int) and not isinstance(workers, bool):
            return f"has {pluralize(workers, 'worker')}{there}", _workers(
                name, workers, steps, machine, cause
            )
    missing = [
        fix
        for name, fix in (
            ("parallel_calls", "map with num_parallel_calls=tf.data.AUTOTUNE"),
            ("prefetch", "end with prefetch(tf.data.AUTOTUNE)"),
        )
        if settings.get(name) is False
    ]
    if missing:
        words = [
            word
            for name, word in (("parallel_calls", "maps in one thread"), ("prefetch", "has no prefetch"))
            if settings.get(name) is False
        ]
        return " and ".join(words) + there, " and ".join(missing)
    return f"did not keep up{there}", _more_workers(machine, cause)


def _workers(name: str, workers: int, steps: Steps, machine: Machine, cause: Cause | None) -> str:
    ranks = max(len(steps.ranks), 1)
    most = min((machine.cpu_count or 0) // ranks - 1, _MOST_WORKERS)
    if workers < most and (cause is None or cause.kind == ONE_CORE):
        return f"set {name}={most}"
    return _more_workers(machine, cause)


def _more_workers(machine: Machine, cause: Cause | None) -> str:
    if cause is not None and cause.kind == DISK:
        return "read fewer and bigger files, prefetch, or keep the data on local NVMe"
    if cause is not None and cause.kind == ALL_CORES:
        return "choose an instance with more vCPUs for each GPU, or prepare the data once and store it"
    if machine.cpu_count and machine.cpu_count > 1:
        return "prepare batches in more processes, do less for each sample, or prepare the data once and store it"
    return "do less for each sample, or prepare the data once and store it"


def _input_cause(machine: Machine) -> Cause | None:
    cause = waiting_cause(machine.waiting)
    if cause is not None:
        return cause
    cores, vcpus = machine.cores, machine.cpu_count or 0
    if vcpus > 1 and cores >= _ALL_CORES * vcpus:
        return Cause(ALL_CORES, f"all {vcpus} cores were busy")
    return None


def _numbers(worst: _Candidate, steps: Steps, machine: Machine) -> Mapping[str, float | int | str | None]:
    """The share of the steps' time, the seconds, their share of the run, and the line."""
    lost = worst.share * steps.total.seconds
    location = worst.location
    return {
        "share": round(worst.share, 4),
        "seconds": round(lost, 3),
        "run_share": round(lost / machine.seconds, 4) if machine.seconds > 0 else None,
        "path": location.path if location else None,
        "line": location.line if location else None,
        "vcpus": machine.cpu_count,
    }
