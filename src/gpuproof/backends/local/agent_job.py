"""The agent's job for a local run: all paths absolute, all defaults resolved."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from gpuproof.agent.job import AgentJob, Mount, ProcessingOutput, UnusedGpuRule
from gpuproof.agent.paths import CONTRACT_ROOT, RunPaths
from gpuproof.backends.agent_job.expected_gpus import ExpectedGpus
from gpuproof.backends.agent_job.machine import MACHINE_PROGRAM, machine_settings
from gpuproof.backends.hosts import host_names
from gpuproof.backends.s3_inputs.mapping import S3Prefix
from gpuproof.jobs.validators import is_s3

if TYPE_CHECKING:
    from gpuproof.jobs.models.script_jobs import ProcessingJob
    from gpuproof.jobs.script_job import AnyJob

DEFAULT_GRACE_SECONDS = 300.0

Sources = Mapping[str, Path | S3Prefix]
"""The folder, file or S3 prefix of each input."""


def local_job(
    job: AnyJob,
    paths: RunPaths,
    *,
    python: str,
    expected: ExpectedGpus,
    gpus_here: int,
    checkpoints: Path,
    sources: Sources,
    isolation: str = "auto",
) -> AgentJob:
    """The agent's job on this machine.

    Args:
        gpus_here: number of GPUs of this machine; without any, the rule about unused GPUs does not apply.
        checkpoints: the folder that is mounted at `/opt/ml/checkpoints`.
        sources: the folder, file or S3 prefix of each input; a prefix is only for display and cannot be mounted.
    """
    processing = job if job.kind == "processing" else None
    return AgentJob(
        run_id=paths.root.name,
        job_name=job.name,
        kind="processing" if processing else "training",
        entry_point=job.entry_point or MACHINE_PROGRAM,
        python=python,
        checkpoints=str(checkpoints),
        arguments=job.arguments,
        hyperparameters={} if job.kind == "processing" else job.hyperparameters,
        channels=() if processing else tuple(job.inputs),
        mounts=tuple(_mounts(job, sources)),
        outputs=tuple(_outputs(processing)) if processing else (),
        environment=job.environment,
        framework=job.framework,
        instance_type=job.instance_type,
        hosts=host_names(job.instance_count),
        expected_gpus=expected.count,
        expected_gpu_name=expected.name,
        expected_because=expected.because,
        require_gpu=job.require_gpu,
        step_times=job.step_times,
        if_gpu_unused=_unused_rule(job, gpus_here),
        max_duration=None if job.max_duration is None else float(job.max_duration.seconds),
        isolation=isolation,
        output=_local_output(job),
        region=job.resources.region,
        machine=machine_settings(job, seeds_work_folder=False),
    )


def plan_warnings(job: AnyJob, expected: ExpectedGpus) -> list[str]:
    """Warnings about settings of the job that do not apply on this machine."""
    warnings = list(job.warnings)
    if expected.unknown is not None:
        warnings.append(f"instance_type {expected.unknown} is not in the catalogue: no GPU is expected")
    warnings += [
        f"{destination} is on S3: local runs keep their results here (gpuproof pull)"
        for destination in _destinations(job)
        if destination is not None and is_s3(destination)
    ]
    checkpoint = None if job.kind == "processing" else job.checkpoint
    if checkpoint is not None and checkpoint.path is None:
        warnings.append(f"{checkpoint.s3} is on S3: local runs keep their checkpoints here")
    return warnings


def _mounts(job: AnyJob, sources: Sources) -> list[Mount]:
    mounts: list[Mount] = []
    for name, source in sources.items():
        target = _below_contract(job.inputs[name].path) if job.kind == "processing" else f"input/data/{name}"
        if isinstance(source, S3Prefix):
            mounts.append(Mount(str(source), target))
        elif not source.is_dir():
            # As on SageMaker, where the channel of a single object is a folder that holds it.
            mounts.append(Mount(str(source), f"{target}/{source.name}"))
        else:
            mounts.append(Mount(str(source), target))
    return mounts


def _outputs(job: ProcessingJob) -> list[ProcessingOutput]:
    return [
        ProcessingOutput(
            _below_contract(output.path),
            None if output.destination is None or is_s3(output.destination) else output.destination,
        )
        for output in job.outputs.values()
    ]


def _below_contract(path: str) -> str:
    return str(PurePosixPath(path).relative_to(CONTRACT_ROOT))


def _unused_rule(job: AnyJob, gpus_here: int) -> UnusedGpuRule | None:
    if gpus_here == 0 or job.require_gpu is False:
        return None
    if job.if_gpu_unused is None:
        # This machine is not billed by the hour: warn, and let the user decide.
        return UnusedGpuRule("warn", DEFAULT_GRACE_SECONDS)
    return UnusedGpuRule(job.if_gpu_unused.action, float(job.if_gpu_unused.grace.seconds))


def _local_output(job: AnyJob) -> str | None:
    if job.kind == "processing" or job.output is None or is_s3(job.output):
        return None
    return job.output


def _destinations(job: AnyJob) -> list[str | None]:
    if job.kind != "processing":
        return [job.output]
    return [output.destination for output in job.outputs.values()]
