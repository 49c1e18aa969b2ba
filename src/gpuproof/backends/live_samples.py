"""Samples of the GPUs of several hosts as one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def merge_samples(samples: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """One sample for all hosts: the time since the first one started, their GPUs, and CPU and memory of each and in total."""
    return {
        "seconds": max(sample["seconds"] for sample in samples.values()),
        "gpus": [{**gpu, "host": host} for host, sample in samples.items() for gpu in sample["gpus"]],
        "cores": _sum(samples, "cores"),
        "rss": _sum(samples, "rss"),
        "hosts": len(samples),
        "host_use": {
            host: {"cores": sample.get("cores"), "rss": sample.get("rss")} for host, sample in samples.items()
        },
    }


def _sum(samples: Mapping[str, Mapping[str, Any]], name: str) -> Any:
    known = [sample[name] for sample in samples.values() if sample.get(name) is not None]
    return sum(known) if known else None
