"""The agent's job in a SageMaker container: `job.json` of the code channel.

It has no environment variables: they are passed only through the API, so that no file contains a secret.
"""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import Literal

from gpuproof.agent.job import AgentJob, ProcessingOutput, UnusedGpuRule
from gpuproof.agent.paths import CONTRACT_ROOT, ContractPaths
from gpuproof.backends.agent_job.expected_gpus import ExpectedGpus
from gpuproof.backends.agent_job.machine import MACHINE_PROGRAM, machine_settings
from gpuproof.jobs.models.script_jobs import Job, ProcessingJob

DEFAULT_GRACE_SECONDS = 900.0
"""The GPU is billed by the second, but loading the data may take some minutes."""


def container_job(job: Job, run_id: str, instance_type: str, expected: ExpectedGpus) -> AgentJob:
    """The agent's job on each host.

    Args:
        run_id: the name of the SageMaker job.
        expected: the GPUs that must work on each host.
    """
    processing = job if isinstance(job, ProcessingJob) else None
    return AgentJob(
        run_id=run_id,
        job_name=job.name,
        kind=contract_kind(job),
        entry_point=job.entry_point or MACHINE_PROGRAM,
        python="python3",
        checkpoints=ContractPaths().checkpoints,
        arguments=job.arguments,
        hyperparameters={} if isinstance(job, ProcessingJob) else job.hyperparameters,
        channels=() if processing else tuple(job.inputs),
        outputs=tuple(_outputs(processing)) if processing else (),
        framework=job.framework,
        instance_type=instance_type,
        expected_gpus=expected.count,
        expected_gpu_name=expected.name,
        expected_because=expected.because,
        require_gpu=job.require_gpu,
        step_times=job.step_times,
        if_gpu_unused=unused_rule(job, expected),
        isolation="container",
        machine=machine_settings(job, seeds_work_folder=True),
    )


def contract_kind(job: Job) -> Literal["training", "processing"]:
    """The kind of job whose contract the job has; a machine has that of a training job."""
    return "processing" if isinstance(job, ProcessingJob) else "training"


def unused_rule(job: Job, expected: ExpectedGpus) -> UnusedGpuRule | None:
    """The job's rule about unused GPUs, by default to stop after 15 minutes; None without a GPU."""
    if expected.count == 0 or job.require_gpu is False:
        return None
    if job.if_gpu_unused is not None:
        return UnusedGpuRule(job.if_gpu_unused.action, float(job.if_gpu_unused.grace.seconds))
    return None if expected.count is None else UnusedGpuRule("stop", DEFAULT_GRACE_SECONDS)


def _outputs(job: ProcessingJob) -> list[ProcessingOutput]:
    return [
        ProcessingOutput(str(PurePosixPath(output.path).relative_to(CONTRACT_ROOT)))
        for output in job.outputs.values()
    ]
