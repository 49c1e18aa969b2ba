"""The newest samples of the GPUs that the hosts of a run have uploaded to S3."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from gpuproof.agent.ec2_host.transfer.live_samples import EVERY_S, LIVE
from gpuproof.backends.aws import Aws
from gpuproof.backends.events import GpuReadings
from gpuproof.backends.live_samples import Past, merge_samples, past_values
from gpuproof.backends.remote.s3_layout import RunLayout
from gpuproof.gpu.history import NAMES


def read_live_samples(aws: Aws, bucket: str, run_id: str, hosts: Sequence[str]) -> GpuReadings:
    """The newest samples, with one request for each host."""
    layout = RunLayout(run_id)
    found = {host: _parsed(aws.get_bytes(bucket, layout.host_file(host, LIVE))) for host in hosts}
    samples = {host: sample for host, sample in found.items() if sample is not None}
    if not samples:
        return GpuReadings("s3", EVERY_S, {})
    merged = merge_samples(samples)
    # Values are as old as those of the host that has reported nothing for the longest time.
    newest = min(float(sample["time"]) for sample in samples.values())
    times, past = past_values(merged, hosts[0])
    if not times:
        return GpuReadings("s3", EVERY_S, merged, newest)
    values: Past = {}
    for gpu in merged["gpus"]:
        for name in NAMES:
            key = gpu["host"], gpu["index"], name
            values[key] = (*past.get(key, (None,) * len(times)), gpu.get(name))
    began = newest - merged["seconds"]
    return GpuReadings("s3", EVERY_S, merged, newest, (*(began + time for time in times), newest), values)


def _parsed(content: bytes | None) -> Mapping[str, Any] | None:
    try:
        document = json.loads(content or b"")
    except ValueError:
        return None
    if not isinstance(document, dict) or not isinstance(document.get("gpus"), list):
        return None
    is_whole = all(isinstance(document.get(name), int | float) for name in ("time", "seconds"))
    return document if is_whole else None
