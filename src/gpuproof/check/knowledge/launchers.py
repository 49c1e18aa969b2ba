"""The launchers that the `distribution` of a job enables, and its number of hosts."""

from __future__ import annotations

from gpuproof.check.analysis.values import Value
from gpuproof.check.jobs.definition import JobDefinition

_OF_SDK_V3 = {"Torchrun": "torch_distributed", "MPI": "mpi"}


def enabled_launchers(job: JobDefinition) -> tuple[str, ...] | None:
    """The launchers that a job certainly enables, such as `torch_distributed`; None if unknown.

    `smdistributed` has a second part: `smdistributed.dataparallel`.
    """
    entries = job.distribution.entries
    if entries is None:
        is_off = job.distribution.is_absent or (
            job.distribution.is_known
            and job.distribution.value is None
            and job.distribution.options == (None,)
        )
        return () if is_off else None
    if not entries.complete:
        return None
    found: list[str] = []
    for key, value in entries.items():
        if job.source == "sagemaker-v3":
            found.append(_OF_SDK_V3.get(str(key), str(key)))
            continue
        parts = value.parts if key == "smdistributed" else {"": value}
        for name, options in parts.items():
            flag = options.at("enabled")
            if flag.is_unknown:
                return None
            if flag.flag:
                found.append(f"{key}.{name}" if name else str(key))
    return tuple(found)


def has_no_launcher(job: JobDefinition) -> bool:
    """Whether certainly only one process is started on each host."""
    if not job.argument("distributions").is_absent:
        return False
    return enabled_launchers(job) == ()


def host_count(job: JobDefinition) -> int | None:
    """The number of hosts of a job, known or default; None if unknown."""
    number = job.instance_count.number
    return int(number) if number is not None else None


def distribution_value(job: JobDefinition, *path: str) -> Value:
    """The value in the `distribution` of a job at a path of keys."""
    return job.distribution.at(*path)
