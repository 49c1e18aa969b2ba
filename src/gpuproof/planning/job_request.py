"""What `gpuproof plan` runs of a training job: its script with hyperparameters, arguments and folders of data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from gpuproof.agent.contract import hyperparameter_arguments
from gpuproof.catalogue import Catalogue
from gpuproof.errors import InvalidJob, UsageError
from gpuproof.jobs.models.script_jobs import TrainingJob
from gpuproof.jobs.validators import is_s3
from gpuproof.planning.contract import Contract
from gpuproof.trace.launcher import LAUNCHERS, NONE


@dataclass(frozen=True)
class JobScript:
    """The script of a job.

    Args:
        script: the file.
        folder: its source folder, in which it runs.
        arguments: its command line.
        contract: its channels and hyperparameters.
        gpus: of each host; None if the job does not say.
        hosts: of the job.
        launcher: what starts the script, of `gpuproof.trace.launcher.LAUNCHERS`.
        region: of the job; None if it names none.
        spot: whether the job asks for spot capacity.
    """

    script: Path
    folder: Path
    arguments: tuple[str, ...]
    contract: Contract
    gpus: int | None
    hosts: int
    launcher: str
    region: str | None
    spot: bool


def script_of_job(
    job: TrainingJob, inputs: Mapping[str, str], arguments: tuple[str, ...] | None, catalogue: Catalogue
) -> JobScript:
    """What a job runs.

    Args:
        job: with absolute paths.
        inputs: folders that replace its channels.
        arguments: replace its own if not None.
        catalogue: knows how many GPUs its instance type has.

    Raises:
        UsageError: the job has no such channel.
        InvalidJob: files are missing, or a channel is in S3 and no folder replaces it.
    """
    if problems := job.missing_files():
        raise InvalidJob(f"{problems[0].subject}{problems[0].rest}")
    for name in inputs:
        if name not in job.inputs:
            raise UsageError(
                f"The job has no channel {name}.", remedy=f"Its channels: {', '.join(job.inputs) or 'none'}."
            )
    channels = {**job.inputs, **inputs}
    for name, place in channels.items():
        if is_s3(place):
            raise InvalidJob(
                f"The data of the channel {name} is in S3 ({place}), which plan does not read.",
                remedy=f"Name a folder with a few samples of it: --input {name}=FOLDER",
            )
    words = hyperparameter_arguments(job.hyperparameters)
    return JobScript(
        script=Path(job.source_dir) / job.entry_point,
        folder=Path(job.source_dir),
        arguments=(*words, *(job.arguments if arguments is None else arguments)),
        contract=Contract(channels, job.hyperparameters),
        gpus=_gpus(job, catalogue),
        hosts=job.instance_count,
        launcher=_launcher(job),
        region=job.resources.region,
        spot=job.resources.spot,
    )


def _gpus(job: TrainingJob, catalogue: Catalogue) -> int | None:
    """GPUs of each host: those of the instance type, or those that the job needs."""
    if job.instance_type is not None:
        instance = catalogue.instance(job.instance_type)
        return None if instance is None else instance.gpu_count or None
    request = job.resources.gpu
    return None if request is None else request.count.low


def _launcher(job: TrainingJob) -> str:
    """What starts the script, as far as it sets variables: the launchers of TensorFlow start it as it is."""
    if job.distribution is None:
        return NONE
    launcher = job.distribution.launcher
    return launcher if launcher in LAUNCHERS else NONE
