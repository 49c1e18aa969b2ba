"""A job as this machine's agent gets it: every path absolute, every default decided."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path, PurePosixPath
from typing import Any

from gpuproof.agent.job import VERSION, AgentJob, Mount, ProcessingOutput, UnusedGpuRule
from gpuproof.agent.paths import CONTRACT_ROOT, RunPaths
from gpuproof.backends.expected_gpus import ExpectedGpus
from gpuproof.backends.local.s3_inputs.mapping import S3Prefix
from gpuproof.errors import InvalidJob
from gpuproof.jobs.spec import Job, ProcessingJob, TrainingJob
from gpuproof.jobs.validators import is_s3

DEFAULT_GRACE_SECONDS = 300.0

Sources = Mapping[str, Path | S3Prefix]
"""The folder, file or S3 prefix behind each input."""


def local_order(
    job: Job,
    paths: RunPaths,
    *,
    python: str,
    expected: ExpectedGpus,
    gpus_here: int,
    checkpoints: Path,
    sources: Sources,
    isolation: str = "auto",
) -> AgentJob:
    """What the agent on this machine shall do.

    Args:
        paths: the run's folder.
        python: the script's interpreter.
        expected: the GPUs that the job asks for.
        gpus_here: GPUs that this machine has; a rule against unused GPUs is idle where there is none.
        checkpoints: the folder behind `/opt/ml/checkpoints`.
        sources: the folder, file or S3 prefix behind each input; a prefix is shown, and nothing can mount it.

    Raises:
        InvalidJob: the job cannot run on this machine.
    """
    _refuse_what_needs_more_hosts(job)
    training = isinstance(job, TrainingJob)
    return AgentJob(
        run_id=paths.root.name,
        job_name=job.name,
        kind=job.kind,
        entry_point=job.entry_point,
        python=python,
        checkpoints=str(checkpoints),
        arguments=job.arguments,
        hyperparameters=job.hyperparameters if training else {},
        channels=tuple(job.inputs) if training else (),
        mounts=tuple(_mounts(job, sources)),
        outputs=() if training else tuple(_outputs(job)),
        environment=job.environment,
        framework=job.framework,
        instance_type=job.instance_type,
        expected_gpus=expected.count,
        expected_gpu_name=expected.name,
        expected_because=expected.because,
        require_gpu=job.require_gpu,
        if_gpu_unused=_unused_rule(job, gpus_here),
        max_duration=None if job.max_duration is None else float(job.max_duration.seconds),
        isolation=isolation,
        output=_local_output(job) if training else None,
    )


def order_document(order: AgentJob) -> dict[str, Any]:
    """The order as `job.json` holds it."""
    return {"version": VERSION, **asdict(order)}


def _refuse_what_needs_more_hosts(job: Job) -> None:
    if job.instance_count > 1:
        raise InvalidJob(
            f"'{job.name}' asks for {job.instance_count} hosts (instance_count), and this machine runs one.",
            remedy="Run it here with --instance-count 1.",
        )
    way = job.distribution.chosen if isinstance(job, TrainingJob) and job.distribution is not None else None
    if way is not None:
        raise InvalidJob(
            f"'{job.name}' is distributed ({way}), and this machine starts one process.",
            remedy="Leave 'distribution' out to run it here.",
        )


def _mounts(job: Job, sources: Sources) -> list[Mount]:
    mounts: list[Mount] = []
    for name, source in sources.items():
        if isinstance(job, ProcessingJob):
            target = _below_contract(job.inputs[name].path)
        else:
            target = f"input/data/{name}"
        if isinstance(source, S3Prefix):
            mounts.append(Mount(str(source), target))
        elif not source.is_dir():
            # As SageMaker does with one object: the channel is a folder that holds it.
            mounts.append(Mount(str(source), f"{target}/{source.name}"))
        else:
            mounts.append(Mount(str(source), target))
    return mounts


def _outputs(job: ProcessingJob) -> list[ProcessingOutput]:
    return [
        ProcessingOutput(
            _below_contract(outlet.path),
            None if outlet.destination is None or is_s3(outlet.destination) else outlet.destination,
        )
        for outlet in job.outputs.values()
    ]


def _below_contract(path: str) -> str:
    return str(PurePosixPath(path).relative_to(CONTRACT_ROOT))


def _unused_rule(job: Job, gpus_here: int) -> UnusedGpuRule | None:
    if gpus_here == 0 or job.require_gpu is False:
        return None
    if job.if_gpu_unused is None:
        # Nobody pays by the hour for this machine: say it, and let the user decide.
        return UnusedGpuRule("warn", DEFAULT_GRACE_SECONDS)
    return UnusedGpuRule(job.if_gpu_unused.action, float(job.if_gpu_unused.grace.seconds))


def _local_output(job: TrainingJob) -> str | None:
    return None if job.output is None or is_s3(job.output) else job.output


def notes_for(job: Job, expected: ExpectedGpus) -> list[str]:
    """What a person should know of the difference between this machine and what the job says."""
    notes = list(job.warnings)
    if expected.unknown is not None:
        notes.append(f"instance_type {expected.unknown} is not in the catalogue, so no GPU is expected of it")
    notes += [
        f"{place} is on S3: a run on this machine keeps its results here (gpuproof pull)"
        for place in _destinations(job)
        if place is not None and is_s3(place)
    ]
    checkpoint = job.checkpoint if isinstance(job, TrainingJob) else None
    if checkpoint is not None and checkpoint.path is None:
        notes.append(f"{checkpoint.s3} is on S3: runs on this machine keep their checkpoints here")
    return notes


def _destinations(job: Job) -> list[str | None]:
    if isinstance(job, TrainingJob):
        return [job.output]
    return [outlet.destination for outlet in job.outputs.values()]
