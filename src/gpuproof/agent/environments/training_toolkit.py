"""Runs jobs of the SageMaker SDK v2 like the `train` program of AWS's training images, in images without it.

The SDK (`TensorFlow(...).fit`, `PyTorch(...).fit`) sets no entry point: hyperparameters whose names begin with
`sagemaker_` specify the script and the location of its source. Names:
https://github.com/aws/sagemaker-training-toolkit/blob/master/src/sagemaker_training/params.py
"""

from __future__ import annotations

import json
import os
import shlex
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
_PROCESSES = "sagemaker_mpi_num_of_processes_per_host"
_MPI_OPTIONS = "sagemaker_mpi_custom_mpi_options"
_NONE = "none"
_LAUNCHERS = {
    "sagemaker_mpi_enabled": "mpi",
    "sagemaker_torch_distributed_enabled": "torchrun",
    "sagemaker_parameter_server_enabled": "parameter_server",
    "sagemaker_multi_worker_mirrored_strategy_enabled": "multi_worker_mirrored",
}
"""The launcher of each parameter that the SDK derives from `distribution`."""
_KNOWN_TO = {
    "pytorch": ("mpi", "torchrun"),
    "tensorflow": ("parameter_server", "multi_worker_mirrored", "mpi"),
}
"""The launchers that the toolkit of a framework supports, in its order of precedence. Sources: `train` in
https://github.com/aws/sagemaker-pytorch-training-toolkit/blob/master/src/sagemaker_pytorch_container/training.py and
https://github.com/aws/sagemaker-tensorflow-training-toolkit/blob/master/src/sagemaker_tensorflow_container/training.py"""
_ONLY_IN_AWS_IMAGES = {
    "sagemaker_pytorch_ddp_enabled": "smddprun (distribution pytorchddp)",
    "sagemaker_distributed_dataparallel_enabled": "SageMaker's data parallel library (smdistributed)",
    "sagemaker_pytorch_xla_multi_worker_enabled": "PyTorch/XLA's launcher (pytorchxla)",
}


@dataclass(frozen=True)
class ToolkitRequest:
    """What the hyperparameters of such a job specify.

    Args:
        submit_directory: the location of the packed source: an `s3://` address, or a path in the container (network
            isolation); `None` if the image itself contains the source.
        job_name: the job's name as the SDK knows it.
        region: the AWS region as the SDK knows it.
        hyperparameters: all of them, converted back from text.
        launcher: of the `distribution`; a key of `gpuproof.agent.launch.registry.LAUNCHERS`.
        processes_per_host: of that launcher; `None` is one per GPU, or one without GPUs.
    """

    program: str
    submit_directory: str | None = None
    job_name: str | None = None
    region: str | None = None
    hyperparameters: Mapping[str, Any] = field(default_factory=dict)
    launcher: str = _NONE
    processes_per_host: int | None = None
    mpi_options: tuple[str, ...] = ()


def parse_request(hyperparameters: Mapping[str, str], environment: Mapping[str, str]) -> ToolkitRequest:
    """Parse the hyperparameters of a job without an entry point.

    Args:
        hyperparameters: as `CreateTrainingJob` takes them and `hyperparameters.json` holds them.

    Raises:
        InvalidContainerJob: no script is named, or the job requires a launcher that only AWS's images have.
    """
    values = {name: _value(text) for name, text in hyperparameters.items()}

    def setting(name: str) -> str | None:
        value = values.get(name) or environment.get(name.upper())
        return None if value is None else str(value)

    # Of the script alone, the variable takes precedence: `Environment` of environment.py in the toolkit 5.1.4.
    program = environment.get(_PROGRAM.upper()) or setting(_PROGRAM)
    if program is None:
        raise InvalidContainerJob(
            f"no hyperparameter {_PROGRAM} and no variable {_PROGRAM.upper()} names the script, and the job has no "
            "ContainerEntrypoint"
        )
    launcher = _launcher(values, framework_of(environment.get(_MODULE_VARIABLE)))
    processes = _number(values, _PROCESSES) if launcher in ("mpi", "torchrun") else None
    options = _mpi_options(values) if launcher == "mpi" else ()
    return ToolkitRequest(
        program,
        setting(_SUBMIT_DIRECTORY),
        setting(_JOB_NAME),
        setting(_REGION),
        values,
        launcher,
        processes,
        options,
    )


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
        launcher=request.launcher,
        processes_per_host=request.processes_per_host,
        mpi_options=request.mpi_options,
        cluster_key=_read_key(here.cluster_key),
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


def _launcher(values: Mapping[str, Any], framework: str | None) -> str:
    """The launcher that the framework's own toolkit would use; each ignores the others' parameters."""
    for name, library in _ONLY_IN_AWS_IMAGES.items():
        if values.get(name):
            raise InvalidContainerJob(
                f"{name}: this job requires {library}, which only AWS's images contain. "
                'Use distribution={"torch_distributed": {"enabled": True}} and the backend nccl or gloo'
            )
    enabled = [launcher for name, launcher in _LAUNCHERS.items() if values.get(name)]
    known = _KNOWN_TO.get(framework or "", tuple(_LAUNCHERS.values()))
    return next((launcher for launcher in known if launcher in enabled), _NONE)


def _number(values: Mapping[str, Any], name: str) -> int | None:
    value = values.get(name)
    if not value:
        return None
    try:
        number = int(value)
    except (TypeError, ValueError):
        number = 0
    if number < 1:
        raise InvalidContainerJob(f"{name} is {value}: it must be a positive number")
    return number


def _mpi_options(values: Mapping[str, Any]) -> tuple[str, ...]:
    text = str(values.get(_MPI_OPTIONS) or "")
    try:
        return tuple(shlex.split(text))
    except ValueError as error:
        raise InvalidContainerJob(f"{_MPI_OPTIONS}: {text!r} is no list of options: {error}") from error


def _read_key(path: Path) -> str:
    """The secret of the hosts' agents; empty if there is none, so that the hosts keep no contact."""
    try:
        return path.read_text(encoding="ascii").strip()
    except FileNotFoundError:
        return ""
    except (OSError, ValueError) as error:
        raise InvalidContainerJob(f"{path} cannot be read: {error}") from error


def _value(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, TypeError):
        return text
