"""A job as AWS's own training images understand it: their `train` program, where an image has none.

The SageMaker SDK v2 (`TensorFlow(...).fit`, `PyTorch(...).fit`) names no entry point: hyperparameters whose names begin
with `sagemaker_` tell the image's toolkit which script to run, and where its source lies. Names:
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
from gpuproof.agent.environments.sagemaker_container import Order, carry_out_order
from gpuproof.agent.environments.sagemaker_job import NotUnderstood, job_here, read_config, read_object
from gpuproof.agent.job import AgentJob
from gpuproof.agent.paths import ContainerPaths

_PROGRAM = "sagemaker_program"
_SUBMIT_DIRECTORY = "sagemaker_submit_directory"
_JOB_NAME = "sagemaker_job_name"
_REGION = "sagemaker_region"
_MODULE_VARIABLE = "SAGEMAKER_TRAINING_MODULE"


@dataclass(frozen=True)
class ToolkitRequest:
    """What the hyperparameters of such a job ask for.

    Args:
        program: path of the script below the source tree.
        submit_directory: where the packed source lies: an `s3://` address, or a path in the container (network
            isolation); `None` where the image itself holds the source.
        job_name: the job's name as the SDK knows it.
        region: the AWS region as the SDK knows it.
        hyperparameters: all of them, with the values that they had before they became text.
    """

    program: str
    submit_directory: str | None = None
    job_name: str | None = None
    region: str | None = None
    hyperparameters: Mapping[str, Any] = field(default_factory=dict)


def understand(hyperparameters: Mapping[str, str], environment: Mapping[str, str]) -> ToolkitRequest:
    """What a job without an entry point asks the image's toolkit for.

    Args:
        hyperparameters: as `CreateTrainingJob` takes them and `hyperparameters.json` holds them.
        environment: the container's variables, where the toolkit looks for what no hyperparameter says.

    Raises:
        NotUnderstood: no script is named, or it is to be started in a way that is not to be had here.
    """
    values = {name: _value(text) for name, text in hyperparameters.items()}

    def said(name: str) -> str | None:
        value = values.get(name) or environment.get(name.upper())
        return None if value is None else str(value)

    program = said(_PROGRAM)
    if program is None:
        raise NotUnderstood(
            f"no hyperparameter {_PROGRAM} and no variable {_PROGRAM.upper()} names the script, and the job has no "
            "ContainerEntrypoint"
        )
    ways = sorted(
        name
        for name, value in values.items()
        if name.startswith("sagemaker_") and name.endswith("_enabled") and value
    )
    if ways:
        raise NotUnderstood(
            f"{', '.join(ways)}: this job is to be started as several processes (distribution), and here one process a "
            "host is started. Leave 'distribution' out of the estimator"
        )
    return ToolkitRequest(program, said(_SUBMIT_DIRECTORY), said(_JOB_NAME), said(_REGION), values)


def toolkit_job(request: ToolkitRequest, here: ContainerPaths, environment: Mapping[str, str]) -> AgentJob:
    """The agent's job for a request.

    Args:
        environment: the container's variables; `SAGEMAKER_TRAINING_MODULE` tells the framework, as in AWS's images.
    """
    name = environment.get("TRAINING_JOB_NAME") or request.job_name or "training-job"
    return AgentJob(
        run_id=name,
        job_name=request.job_name or name,
        kind="training",
        entry_point=request.program,
        python="python3",
        checkpoints=str(here.base / "checkpoints"),
        hyperparameters=request.hyperparameters,
        environment={"SAGEMAKER_REGION": request.region} if request.region else {},
        framework=framework_of(environment.get(_MODULE_VARIABLE)),
    )


def carry_out(here: ContainerPaths) -> int:
    """Do what the image's `train` would do; gives the exit code for SageMaker.

    The folder holds `sourcedir.tar.gz`, fetched from the job's `sagemaker_submit_directory` where that is on S3.
    """
    return carry_out_order(here, _read)


def _read(here: ContainerPaths) -> Order:
    request = understand(read_object(here.hyperparameters), os.environ)
    config = read_config(here, "training")
    job = job_here(toolkit_job(request, here, os.environ), config, here)
    return Order(job, config, _source(request, here), reports=False)


def _source(request: ToolkitRequest, here: ContainerPaths) -> Path | None:
    """The packed source tree; `None` where it lies open in the container."""
    where = request.submit_directory
    if where is None or Path(where).is_dir():
        return None
    return Path(where) if where.startswith("/") else here.toolkit_source


def _value(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, TypeError):
        return text
