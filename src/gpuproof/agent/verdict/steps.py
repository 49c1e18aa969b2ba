"""Where the time of the steps went, on a host from the documents of its processes, and for a job from its hosts."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from gpuproof.agent.verdict.evidence import (
    PHASES,
    SYNCHRONIZATION,
    CodeLocation,
    RankSteps,
    Steps,
    StepTimes,
    StepWindow,
)

_LONGEST_TEXT = 200
_MOST_SETTINGS = 20
_MOST_EPOCHS = 200
_MOST_WINDOWS = 60
"""A rank writes up to 360; the verdict of a host with eight ranks would have 300 KB of them, and SageMaker's log takes 256 KB."""
_LOOPS = ("pytorch", "transformers", "lightning", "accelerate", "keras", "tensorflow")


def host_steps(documents: Iterable[Mapping[str, Any]]) -> Steps | None:
    """The steps of one host; `None` if no process has recorded any.

    Args:
        documents: what `gpuproof.runtime.steps` wrote; invalid ones are ignored, and so are invalid parts of others.
    """
    ranks = _by_rank([rank for document in documents if (rank := _rank(document)) is not None])
    return mean_steps(ranks) if ranks else None


def mean_steps(ranks: Sequence[RankSteps]) -> Steps:
    """The means over ranks that work at the same time."""
    epochs: dict[int, list[StepTimes]] = {}
    for rank in ranks:
        for epoch in rank.epochs:
            if epoch.epoch is not None:
                epochs.setdefault(epoch.epoch, []).append(epoch)
    return Steps(
        total=_mean([rank.total for rank in ranks]),
        epochs=tuple(_mean(epochs[number]) for number in sorted(epochs)),
        # The verdict has the epochs once: of many ranks, they would be most of it.
        ranks=tuple(replace(rank, epochs=()) for rank in ranks),
    )


def job_steps(hosts: Sequence[Steps]) -> Steps | None:
    """The steps of several hosts that work at the same time; the ranks are left with their hosts."""
    if not hosts:
        return None
    epochs: dict[int | None, list[StepTimes]] = {}
    for steps in hosts:
        for epoch in steps.epochs:
            epochs.setdefault(epoch.epoch, []).append(epoch)
    return Steps(_mean([steps.total for steps in hosts]), tuple(_mean(times) for times in epochs.values()))


def _mean(times: Sequence[StepTimes]) -> StepTimes:
    count = len(times)
    return StepTimes(
        steps=round(sum(each.steps for each in times) / count),
        seconds=sum(each.seconds for each in times) / count,
        phases={name: sum(each.phases.get(name, 0.0) for each in times) / count for name in PHASES},
        epoch=times[0].epoch,
    )


def _by_rank(found: Sequence[RankSteps]) -> list[RankSteps]:
    """One entry for each rank: a launcher that restarts it, and a script that trains in one process after another, add up."""
    ranks: dict[int, RankSteps] = {}
    others: list[RankSteps] = []
    for steps in sorted(found, key=_began):
        if steps.rank is not None:
            before = ranks.get(steps.rank)
            ranks[steps.rank] = _added(before, steps) if before else steps
            continue
        for index, before in enumerate(others):
            if before.windows and steps.windows and before.windows[-1].ended <= _began(steps):
                others[index] = _added(before, steps)
                break
        else:
            others.append(steps)
    return [*(ranks[rank] for rank in sorted(ranks)), *others]


def _began(steps: RankSteps) -> float:
    return steps.windows[0].ended - steps.windows[0].seconds if steps.windows else 0.0


def _added(first: RankSteps, second: RankSteps) -> RankSteps:
    """The steps of two processes of which the second began after the first had ended."""
    epochs = {epoch.epoch: epoch for epoch in first.epochs}
    for epoch in second.epochs:
        same = epochs.get(epoch.epoch)
        epochs[epoch.epoch] = _sum(same, epoch) if same else epoch
    locations = dict(first.locations)
    for name, location in second.locations.items():
        locations[name] = _same_or_longer(locations.get(name), location)
    return replace(
        second,
        total=_sum(first.total, second.total),
        epochs=tuple(epochs.values()),
        locations=locations,
        windows=_fewer((*first.windows, *second.windows)),
    )


def _sum(first: StepTimes, second: StepTimes) -> StepTimes:
    return StepTimes(
        first.steps + second.steps,
        first.seconds + second.seconds,
        {name: first.phases.get(name, 0.0) + second.phases.get(name, 0.0) for name in PHASES},
        first.epoch,
    )


def _same_or_longer(first: CodeLocation | None, second: CodeLocation) -> CodeLocation:
    if first is None:
        return second
    if (first.path, first.line, first.what) == (second.path, second.line, second.what):
        return replace(second, count=first.count + second.count, seconds=first.seconds + second.seconds)
    return max(first, second, key=lambda location: location.seconds)


def _rank(document: Mapping[str, Any]) -> RankSteps | None:
    """The steps of one process; `None` for none, and for anything that a script may have written."""
    total = _times(document)
    if total is None:
        return None
    epochs = [
        replace(times, epoch=number)
        for epoch in _list(document.get("epochs"))[-_MOST_EPOCHS:]
        if isinstance(epoch, dict)
        and (times := _times(epoch)) is not None
        and (number := _count(epoch.get("epoch"))) is not None
    ]
    loop = document.get("loop")
    return RankSteps(
        rank=_count(document.get("rank")),
        host=None,
        loop=loop if loop in _LOOPS else "unknown",
        clock="cuda" if document.get("clock") == "cuda" else "cpu",
        total=total,
        epochs=tuple(epochs),
        locations=_locations(document.get("locations")),
        median_step_s=_seconds(document.get("median_step_s")),
        own_step_s=_seconds(document.get("own_step_s")),
        local_rank=_count(document.get("local_rank")),
        windows=_windows(document.get("windows")),
    )


def _times(value: Mapping[str, Any]) -> StepTimes | None:
    steps, seconds, phases = _count(value.get("steps")), _seconds(value.get("seconds")), value.get("phases")
    if not steps or not seconds or not isinstance(phases, dict):
        return None
    known = {name: _seconds(phases.get(name)) or 0.0 for name in PHASES if name != "rest"}
    # Clocks of the CPU and of the GPU may differ by a little.
    scale = min(1.0, seconds / sum(known.values())) if any(known.values()) else 1.0
    known = {name: phase * scale for name, phase in known.items()}
    return StepTimes(steps, seconds, {**known, "rest": max(seconds - sum(known.values()), 0.0)})


def _locations(value: object) -> dict[str, CodeLocation]:
    if not isinstance(value, dict):
        return {}
    found = {name: _location(value.get(name)) for name in (*PHASES, SYNCHRONIZATION)}
    return {name: location for name, location in found.items() if location is not None}


def _location(value: object) -> CodeLocation | None:
    if not isinstance(value, dict):
        return None
    path, line, what, settings = (value.get(name) for name in ("path", "line", "what", "settings"))
    if not isinstance(path, str) or not isinstance(line, int) or not isinstance(what, str):
        return None
    return CodeLocation(
        path=path[:_LONGEST_TEXT],
        line=line,
        what=what[:_LONGEST_TEXT],
        count=_count(value.get("count")) or 0,
        seconds=_seconds(value.get("seconds")) or 0.0,
        settings={
            str(name)[:_LONGEST_TEXT]: setting[:_LONGEST_TEXT] if isinstance(setting, str) else setting
            for name, setting in list(settings.items() if isinstance(settings, dict) else ())[:_MOST_SETTINGS]
            if setting is None or isinstance(setting, (str, int, bool)) or _seconds(setting) is not None
        },
    )


def _windows(value: object) -> tuple[StepWindow, ...]:
    found: list[StepWindow] = []
    for window in _list(value):
        numbers = [_seconds(number) for number in _list(window)]
        if len(numbers) < 5 or None in numbers[:5]:
            continue
        ended, steps, seconds, own, waited = (float(number or 0.0) for number in numbers[:5])
        if steps >= 1 and seconds > 0:
            found.append(StepWindow(ended, int(steps), seconds, min(own, seconds), min(waited, seconds)))
    return _fewer(sorted(found, key=lambda window: window.ended))


def _fewer(windows: Sequence[StepWindow]) -> tuple[StepWindow, ...]:
    """At most `_MOST_WINDOWS`: neighbours are merged."""
    group = -(-len(windows) // _MOST_WINDOWS)
    if group <= 1:
        return tuple(windows)
    parts = [windows[start : start + group] for start in range(0, len(windows), group)]
    return tuple(
        StepWindow(
            part[-1].ended,
            sum(window.steps for window in part),
            sum(window.seconds for window in part),
            sum(window.own_s for window in part),
            sum(window.input_s for window in part),
        )
        for part in parts
    )


def _list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


def _count(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


def _seconds(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    try:
        return float(value) if math.isfinite(value) and value >= 0 else None
    except OverflowError:
        return None
