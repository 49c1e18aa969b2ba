"""What a job is: its description, reading it from a file or a script, changing it by flags, its JSON schema.

A description is SageMaker's, key for key, and reads the same for every place where a job can run. Names are imported
when they are first used, because pydantic takes longer to import than `gpuproof --help` may.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gpuproof.jobs.cli_overrides import Overrides, override_job
    from gpuproof.jobs.load import load as load_job
    from gpuproof.jobs.load import load_jobs
    from gpuproof.jobs.schema import json_schema
    from gpuproof.jobs.spec import Job, ProcessingJob, TrainingJob

__all__ = [
    "Job",
    "Overrides",
    "ProcessingJob",
    "TrainingJob",
    "json_schema",
    "load_job",
    "load_jobs",
    "override_job",
]

_HOMES = {
    "Overrides": ("cli_overrides", "Overrides"),
    "Job": ("spec", "Job"),
    "ProcessingJob": ("spec", "ProcessingJob"),
    "TrainingJob": ("spec", "TrainingJob"),
    "json_schema": ("schema", "json_schema"),
    "load_job": ("load", "load"),
    "load_jobs": ("load", "load_jobs"),
    "override_job": ("cli_overrides", "override_job"),
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module, attribute = _HOMES[name]
    return getattr(import_module(f"{__name__}.{module}"), attribute)
