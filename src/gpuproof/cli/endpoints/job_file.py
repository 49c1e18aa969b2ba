"""`gpuproof deploy gpuproof.yaml`: the settings of a job with `kind: endpoint`, as if they were flags."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpuproof.errors import UsageError

if TYPE_CHECKING:
    from gpuproof.jobs.models.endpoint import EndpointJob

_DESTINATIONS = {"async_output": "asynchronous"}
"""Keys whose flag has another name in the parsed arguments."""

_ADDED = {"environment": "env", "tags": "tag"}
"""Keys that are added to what the flags say; flags take precedence."""


def apply_job_file(arguments: argparse.Namespace) -> None:
    """Set the arguments that no flag sets from the job file that MODEL names, and the defaults of the rest.

    Raises:
        UsageError: MODEL is no job file, but JOB was given; or the file has no such job.
        InvalidJob: the file is invalid.
    """
    path = Path(arguments.model)
    if path.suffix in (".yaml", ".yml"):
        from gpuproof.jobs.load import load_as
        from gpuproof.jobs.models.endpoint import EndpointJob

        _apply(arguments, load_as(path, arguments.job, EndpointJob))
    elif arguments.job is not None:
        raise UsageError(
            f"Unexpected argument '{arguments.job}': {arguments.model} is not a gpuproof.yaml.",
            remedy="gpuproof deploy gpuproof.yaml JOB, or gpuproof deploy MODEL --name ENDPOINT",
        )
    arguments.server = arguments.server or "gpuproof"
    arguments.instance_count = 1 if arguments.instance_count is None else arguments.instance_count


def _apply(arguments: argparse.Namespace, job: EndpointJob) -> None:
    unset = [key for key in type(job).model_fields if key not in ("kind", "model") and key not in _ADDED]
    unset = [key for key in unset if _is_unset(arguments, key)]
    arguments.model = job.model
    for key in unset:
        setattr(arguments, _DESTINATIONS.get(key, key), _as_argument(key, getattr(job, key)))
    for key, destination in _ADDED.items():
        pairs = [f"{name}={one}" for name, one in getattr(job, key).items()]
        setattr(arguments, destination, [*pairs, *getattr(arguments, destination)])


def _is_unset(arguments: argparse.Namespace, key: str) -> bool:
    """Whether no flag sets a key. Serverless and an instance type exclude each other: a flag for one replaces the other."""
    value = getattr(arguments, _DESTINATIONS.get(key, key))
    if key in ("instance_type", "serverless") and (arguments.instance_type or arguments.serverless):
        return False
    # --no-require-gpu says something; other flags that are false were not given.
    return value is None or (value is False and key != "require_gpu")


def _as_argument(key: str, value: Any) -> Any:
    if key in ("code", "request"):
        return None if value is None else Path(value)
    return str(value) if key in ("ttl", "startup_timeout") and value is not None else value
