"""Job descriptions: the models, reading them from `gpuproof.yaml` or a script, command-line overrides, the JSON schema.

The keys are SageMaker's and mean the same on every backend. Names are imported on first use, because importing
pydantic takes longer than `gpuproof --help` may.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gpuproof.jobs.apply_overrides import override_job
    from gpuproof.jobs.load import load as load_job
    from gpuproof.jobs.load import load_jobs
    from gpuproof.jobs.models.script_jobs import Job, ProcessingJob, TrainingJob
    from gpuproof.jobs.options import Overrides
    from gpuproof.jobs.schema import json_schema

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

_MODULES = {
    "Overrides": ("options", "Overrides"),
    "Job": ("models.script_jobs", "Job"),
    "ProcessingJob": ("models.script_jobs", "ProcessingJob"),
    "TrainingJob": ("models.script_jobs", "TrainingJob"),
    "json_schema": ("schema", "json_schema"),
    "load_job": ("load", "load"),
    "load_jobs": ("load", "load_jobs"),
    "override_job": ("apply_overrides", "override_job"),
}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module, attribute = _MODULES[name]
    return getattr(import_module(f"{__name__}.{module}"), attribute)


def __dir__() -> list[str]:
    return sorted({*__all__, *(name for name in globals() if name.startswith("__"))})
