"""Finds the checkpoints of an earlier run of a job on EC2, from which a new run continues."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from gpuproof.agent.state import COMPLETED
from gpuproof.backends.aws import Aws
from gpuproof.backends.ec2.launch_record import LaunchRecord
from gpuproof.backends.hosts import host_names
from gpuproof.backends.remote.run_id import stamp_in
from gpuproof.backends.remote.s3_layout import LAUNCHES, RunLayout, launched_run
from gpuproof.jobs.models.machine import MachineJob
from gpuproof.jobs.models.script_jobs import Job

_NAME_PREFIX = 40
"""Characters of a job's name that are contained in the ids of all its runs."""

_MOST_RUNS = 20
"""Number of runs to check: runs that failed early left no checkpoints."""

_LIVING = ("pending", "running", "stopping", "shutting-down")


@dataclass(frozen=True)
class EarlierCheckpoints:
    """The checkpoints of an earlier run.

    Args:
        address: their `s3://` prefix.
    """

    address: str
    run_id: str


def find_earlier_checkpoints(aws: Aws, job: Job, bucket: str) -> EarlierCheckpoints | None:
    """The checkpoints of the newest earlier run that did not complete and left some.

    None if a newer run completed or was started with `--fresh`; runs in progress are skipped. A machine continues from the
    newest work folder, however its run has ended.

    Raises:
        AwsRefused: the user may not read the bucket.
    """
    for record in _earlier(aws, job, bucket):
        status = _end_status(aws, record)
        if status == COMPLETED and not isinstance(job, MachineJob):
            return None
        if status is None and _is_living(aws, record):
            continue
        if record.checkpoints and _exists(aws, record.checkpoints):
            return EarlierCheckpoints(record.checkpoints, record.run_id)
        if record.fresh:
            return None
    return None


def _earlier(aws: Aws, job: Job, bucket: str) -> Iterator[LaunchRecord]:
    """The launch records of the job's newest runs, newest first."""
    keys = [item.key for item in aws.list_objects(bucket, f"{LAUNCHES}{job.name[:_NAME_PREFIX]}")]
    runs = [run for key in keys if (run := launched_run(key)) is not None]
    read = 0
    for run in sorted(runs, key=stamp_in, reverse=True):
        if read == _MOST_RUNS:
            return
        content = aws.get_bytes(bucket, RunLayout(run).launch)
        read += 1
        try:
            record = LaunchRecord.parse(content or b"null")
        except ValueError:
            continue  # of another version of GPUproof, or removed in the meantime
        if record.job_name == job.name and record.kind == job.kind:
            yield record


def _end_status(aws: Aws, record: LaunchRecord) -> str | None:
    """How the run ended according to its hosts: `Completed` if all have completed; None if one has not written its end."""
    statuses = [_host_end(aws, record, host) for host in host_names(record.instance_count)]
    if None in statuses:
        return None
    return next((status for status in statuses if status != COMPLETED), COMPLETED)


def _host_end(aws: Aws, record: LaunchRecord, host: str) -> str | None:
    content = aws.get_bytes(record.bucket, RunLayout(record.run_id).host_file(host, "end.json"))
    try:
        end: Any = json.loads(content or b"null")
    except ValueError:
        return None
    return end.get("status") if isinstance(end, dict) else None


def _is_living(aws: Aws, record: LaunchRecord) -> bool:
    return any(
        instance["State"]["Name"] in _LIVING
        for instance in aws.in_region(record.region).instances(record.instances)
    )


def _exists(aws: Aws, address: str) -> bool:
    bucket, _, prefix = address.removeprefix("s3://").partition("/")
    return next(aws.list_objects(bucket, prefix), None) is not None
