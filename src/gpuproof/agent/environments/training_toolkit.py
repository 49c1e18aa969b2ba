"""Runs jobs of the SageMaker SDK v2 like the `train` program of AWS's training images, in images without it.

The SDK (`TensorFlow(...).fit`, `PyTorch(...).fit`) sets no entry point: hyperparameters whose names begin with
`sagemaker_` specify the script and the location of its source. Names:
https://github.com/aws/sagemaker-training-toolkit/blob/master/src/sagemaker_training/params.py
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gpuproof.agent.contract import framework_of
from gpuproof.agent.environments.sagemaker_container import ContainerJob, RunJob, run_in_container
from gpuproof.agent.environments.sagemaker_job import InvalidContainerJob, adapt_job, read_config, read_object
from gpuproof.agent.job import AgentJob
from gpuproof.agent.paths import ContainerPaths

_PROGRAM = "sagemaker_program"
_SUBMIT_DIRECTORY = "sagemaker_submit_directory"
_JOB_NAME = "sagemaker_job_name"
_REGION = "sagemaker_region"
_MODULE_VARIABLE = "SAGEMAKER_TRAINING_MODULE"


@dataclass(frozen=True)
class ToolkitRequest:
    """What the hyperparameters of such a job specify.

    Args:
        program: path of the script below the source tree.
        submit_directory: the location of the packed source: an `s3://` address, or a path in the container (network
            isolation); `None` if the image itself contains the source.
        job_name: the job's name as the SDK knows it.
        region: the AWS region as the SDK knows it.
        hyperparameters: all of them, converted back from text.
    """

    program: str
    submit_directory: str | None = None
    job_name: str | None = None
    region: str | None = None
    hyperparameters: Mapping[str, Any] = field(default_factory=dict)


def parse_request(hyperparameters: Mapping[str, str], environment: Mapping[str, str]) -> ToolkitRequest:
    """Parse the hyperparameters of a job without an entry point.

    Args:
        hyperparameters: as `CreateTrainingJob` takes them and `hyperparameters.json` holds them.
        environment: the container's variables, which the toolkit reads in place of missing hyperparameters.

    Raises:
        InvalidContainerJob: no script is named, or it requires a launcher that is not supported.
    """
    values = {name: _value(text) for name, text in hyperparameters.items()}

    def setting(name: str) -> str | None:
        value = values.get(name) or environment.get(name.upper())
        return None if value is None else str(value)

    program = setting(_PROGRAM)
    if program is None:
        raise InvalidContainerJob(
            f"no hyperparameter {_PROGRAM} and no variable {_PROGRAM.upper()} names the script, and the job has no "
            "ContainerEntrypoint"
        )
    ways = sorted(
        name
        for name, value in values.items()
        if name.startswith("sagemaker_") and name.endswith("_enabled") and value
    )
    if ways:
        raise InvalidContainerJob(
            f"{', '.join(ways)}: this job requires several processes (distribution), but only one process per host is "
            "supported. Remove 'distribution' from the estimator"
        )
    return ToolkitRequest(program, setting(_SUBMIT_DIRECTORY), setting(_JOB_NAME), setting(_REGION), values)


def toolkit_job(request: ToolkitRequest, here: ContainerPaths, environment: Mapping[str, str]) -> AgentJob:
    """Return the agent's job for a request.

    Args:
        environment: the container's variables; `SAGEMAKER_TRAINING_MODULE` names the framework, as in AWS's images.
    """
    name = environment.get("TRAINING_JOB_NAME") or request.job_name or "training-job"
    # The variable and the parameter of that name mean the same; the contract reads the parameter.
    source = {_SUBMIT_DIRECTORY: request.submit_directory} if request.submit_directory else {}
    return AgentJob(
        run_id=name,
        job_name=request.job_name or name,
        kind="training",
        entry_point=request.program,
        python="python3",
        checkpoints=str(here.base / "checkpoints"),
        hyperparameters={**request.hyperparameters, **source},
        environment={"SAGEMAKER_REGION": request.region} if request.region else {},
        framework=framework_of(environment.get(_MODULE_VARIABLE)),
    )


def run_toolkit_job(here: ContainerPaths, run: RunJob) -> int:
    """Run the job as the image's `train` program would; returns the exit code for SageMaker.

    The folder holds `sourcedir.tar.gz`, downloaded from the job's `sagemaker_submit_directory` if that is on S3.
    """
    return run_in_container(here, _read, run)


def _read(here: ContainerPaths) -> ContainerJob:
    request = parse_request(read_object(here.hyperparameters), os.environ)
    config = read_config(here, "training")
    job = adapt_job(toolkit_job(request, here, os.environ), config, here)
    return ContainerJob(job, config, _source(request, here), reports=False)


def _source(request: ToolkitRequest, here: ContainerPaths) -> Path | None:
    """The packed source tree; `None` if it is unpacked in the container."""
    where = request.submit_directory
    if where is None or Path(where).is_dir():
        return None
    return Path(where) if where.startswith("/") else here.toolkit_source


def _value(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, TypeError):
        return text
