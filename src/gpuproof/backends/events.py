"""What a run reports while it is followed, and its results."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from gpuproof.backends.record import RunRecord


@dataclass(frozen=True)
class Output:
    """A piece of the script's output: raw bytes from one host, or whole lines prefixed with the host from several.

    Args:
        content: the bytes.
    """

    content: bytes


@dataclass(frozen=True)
class Live:
    """A sample of a running job, for the progress line.

    Args:
        sample: `seconds` since the script started and, where known, `gpus` (each `index`, `utilization` in percent, `memory_used`
            and `memory_total` in bytes, `power_w`, `temperature_c`, `waiting_for` with `kind` and `text`, `host` if there are several), busy
            `cores`, `rss` in bytes, `host_use` with both for each of several hosts, `past` (see `gpuproof.gpu.history.RecentMeans`; its
            GPUs have `host`, too), `cost` in USD and the backend's status `message`.
    """

    sample: dict[str, Any]


@dataclass(frozen=True)
class GpuReadings:
    """What the GPUs of a run did lately, where its `Live` samples do not have it.

    Args:
        source: `s3` or `cloudwatch`.
        every_s: seconds between two values.
        sample: `gpus` and `host_use`, as in `Live`; where one value is for all GPUs of a host, it has their `count`.
        newest: when it was measured, in seconds since the epoch; `None` without values.
        times: of `past`, in seconds since the epoch.
        past: earlier values by host, index of the GPU and name (`utilization`, `memory_used`).
    """

    source: str
    every_s: float
    sample: dict[str, Any]
    newest: float | None = None
    times: tuple[float, ...] = ()
    past: Mapping[tuple[str, int, str], tuple[float | None, ...]] = field(
        default_factory=dict[tuple[str, int, str], tuple[float | None, ...]]
    )


@dataclass(frozen=True)
class Notice:
    """A message of the backend for the user, such as that a lost connection was restored."""

    text: str


Event = Output | RunRecord | Live | Notice
"""What `Run.follow` yields; a `RunRecord` whenever the run's state changed."""

TransferProgress = Callable[[str, int, int], None]
"""Callback for a download: its name, the bytes received so far and its total bytes."""


@dataclass(frozen=True)
class Artifact:
    """A result of a run.

    Args:
        name: `model.tar.gz`, `output.tar.gz`, or the name of a processing job's output.
        location: a path or an `s3://` address.
        files: number of files in it; `None` if unknown.
        bytes: size of its content; `None` if unknown.
    """

    name: str
    location: str
    files: int | None = None
    bytes: int | None = None
