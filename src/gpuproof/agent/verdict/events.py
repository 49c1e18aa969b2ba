"""What happened during a run, for the time axis of its report."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from gpuproof.agent.failure import describe_exit
from gpuproof.agent.verdict.evidence import RunEvent
from gpuproof.agent.verdict.schema import GpuVerdict
from gpuproof.gpu.telemetry import Telemetry
from gpuproof.util.humanize import gpu_list

FIRST_USE = "first-use"
"""A GPU of the host worked for the first time."""
EPOCH, EVALUATION, CHECKPOINT = "epoch", "evaluation", "checkpoint"
"""One of these began, in the process with the lowest rank."""
LOST_GPU = "lost-gpu"
"""A GPU could not be read any more, until the end."""
STOP = "stop"
"""The agent began to end the script; `gpu-unused` if that was because no GPU worked."""
FAILURE = "failure"
"""The script failed."""
END = "end"
"""The script ended well, or because it was told to."""

MOST = 200
"""Events of a verdict."""
_OF_STEPS = (EPOCH, EVALUATION, CHECKPOINT)
_THINNED = (*_OF_STEPS, END, FIRST_USE)
"""Kinds of which only some are kept if there are too many events, in this order."""
_LONGEST_LABEL = 200
_MOST_EPOCHS = 10**9


def host_events(
    telemetry: Telemetry,
    gpus: Iterable[GpuVerdict],
    documents: Iterable[Mapping[str, Any]],
    began: float,
    recorded: Iterable[RunEvent],
) -> tuple[RunEvent, ...]:
    """The events of one host, in the order of time.

    Args:
        documents: what `gpuproof.runtime.steps` wrote; invalid parts are ignored.
        began: when monitoring began, as Unix time.
        recorded: those that the agent has recorded itself.
    """
    return _at_most([*_of_gpus(telemetry, gpus), *_of_steps(documents, began, telemetry.seconds), *recorded])


def job_events(hosts: Mapping[str, Sequence[RunEvent]]) -> tuple[RunEvent, ...]:
    """The events of several hosts; epochs, evaluations and checkpoints, which all of them have, are those of the first."""
    first = next(
        (name for name, events in hosts.items() if any(event.kind in _OF_STEPS for event in events)), None
    )
    return _at_most(
        replace(event, host=name)
        for name, events in hosts.items()
        for event in events
        if name == first or event.kind not in _OF_STEPS
    )


def exit_event(seconds: float, code: int, *, is_failure: bool) -> RunEvent:
    """The end of the script.

    Args:
        code: its exit code, or minus the number of the signal that killed it.
    """
    return RunEvent(
        seconds, FAILURE if is_failure else END, f"the script {describe_exit(code, hint=is_failure)}"
    )


def _of_gpus(telemetry: Telemetry, gpus: Iterable[GpuVerdict]) -> Iterator[RunEvent]:
    uses = [(gpu.first_use_s, gpu.index) for gpu in gpus if gpu.worked and gpu.first_use_s is not None]
    if uses:
        seconds, index = min(uses)
        yield RunEvent(seconds, FIRST_USE, f"first use of {gpu_list([index])}")
    for gpu in telemetry.gpus:
        if gpu.lost_at_s is not None:
            label = f"{gpu_list([gpu.info.index])} could not be read any more: {gpu.error}"
            yield RunEvent(gpu.lost_at_s, LOST_GPU, label[:_LONGEST_LABEL])


def _of_steps(documents: Iterable[Mapping[str, Any]], began: float, seconds: float) -> Iterator[RunEvent]:
    # A rank that was restarted has several documents.
    by_rank: dict[int, list[Mapping[str, Any]]] = {}
    for document in documents:
        rank = document.get("rank")
        by_rank.setdefault(rank if isinstance(rank, int) else -1, []).append(document)
    for document in by_rank[min(by_rank)] if by_rank else ():
        events = document.get("events")
        for event in events if isinstance(events, list) else ():
            if not isinstance(event, list) or len(event) != 3:
                continue
            at, kind, number = event
            if isinstance(at, float) and 0 <= at - began <= seconds + 1 and kind in _OF_STEPS:
                is_number = isinstance(number, int) and 0 <= number < _MOST_EPOCHS
                label = f"{kind} {number + 1}" if is_number else kind
                yield RunEvent(round(at - began, 1), kind, label)


def _at_most(found: Iterable[RunEvent]) -> tuple[RunEvent, ...]:
    events = sorted(found, key=lambda event: event.seconds)
    for kind in _THINNED:
        same = [event for event in events if event.kind == kind]
        excess = len(events) - MOST
        if same and excess > 0:
            kept = set(same[:: math.ceil(len(same) / max(len(same) - excess, 1))])
            events = [event for event in events if event.kind != kind or event in kept]
    return tuple(events[:MOST])
