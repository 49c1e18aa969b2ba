"""Merges the samples of several hosts into one, and reads the earlier values that samples carry."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gpuproof.gpu.history import NAMES, STEP_S

Past = dict[tuple[str, int, str], tuple[float | None, ...]]
"""Earlier values by host, index of the GPU and name."""


def merge_samples(samples: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """One sample for all hosts: the time since the first one started, their GPUs, and CPU and memory of each and in total."""
    seconds = max(sample["seconds"] for sample in samples.values())
    return {
        "seconds": seconds,
        "gpus": [{**gpu, "host": host} for host, sample in samples.items() for gpu in sample["gpus"]],
        "cores": _sum(samples, "cores"),
        "rss": _sum(samples, "rss"),
        "hosts": len(samples),
        "host_use": {
            host: {"cores": sample.get("cores"), "rss": sample.get("rss")} for host, sample in samples.items()
        },
        "past": _merge_past(samples, seconds),
    }


def past_values(sample: Mapping[str, Any], host: str) -> tuple[tuple[float, ...], Past]:
    """The times of the past that a sample has, in seconds since the script started, and the values.

    Args:
        host: of GPUs that have none.
    """
    past = sample.get("past") or {}
    values: Past = {
        (gpu.get("host", host), gpu["index"], name): tuple(gpu[name])
        for gpu in past.get("gpus", ())
        for name in NAMES
    }
    return tuple(past.get("times", ())), values


def _merge_past(samples: Mapping[str, Mapping[str, Any]], seconds: float) -> dict[str, Any]:
    """The past of all hosts; a host that started later has gaps at its beginning."""
    of_hosts: list[tuple[str, Mapping[str, Any], list[float]]] = []
    for host, sample in samples.items():
        if past := sample.get("past"):
            late = round((seconds - sample["seconds"]) / STEP_S) * STEP_S
            of_hosts.append((host, past, [time + late for time in past["times"]]))
    all_times = sorted({time for _, _, times in of_hosts for time in times})
    gpus: list[dict[str, Any]] = []
    for host, past, times in of_hosts:
        for gpu in past["gpus"]:
            found = {name: dict(zip(times, gpu[name], strict=True)) for name in NAMES}
            values = {name: [found[name].get(time) for time in all_times] for name in NAMES}
            gpus.append({"host": host, "index": gpu["index"], **values})
    return {"times": all_times, "gpus": gpus}


def _sum(samples: Mapping[str, Mapping[str, Any]], name: str) -> Any:
    known = [sample[name] for sample in samples.values() if sample.get(name) is not None]
    return sum(known) if known else None
