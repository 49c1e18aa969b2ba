"""The kinds of job that a `gpuproof.yaml` may describe: the one table from which files are read and the schema is made.

A kind is a model in a module of its own, `models/NAME.py`, that derives from `JobModel`, and a row of `KINDS`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gpuproof.jobs.models.job_model import JobModel

RUN = "gpuproof run"
"""The command that runs the jobs of `gpuproof.jobs.models.script_jobs.Job`."""


@dataclass(frozen=True)
class Kind:
    """One kind of job.

    Args:
        model: module and class of its model, imported when a job of this kind is read.
        phrase: what such a job is, in a sentence.
        command: the command that takes such a job.
    """

    model: str
    phrase: str
    command: str = RUN


DEFAULT = "training"
"""The kind of a job without the key `kind`."""

KINDS: dict[str, Kind] = {
    "training": Kind("gpuproof.jobs.models.script_jobs:TrainingJob", "a training job"),
    "processing": Kind("gpuproof.jobs.models.script_jobs:ProcessingJob", "a processing job"),
    "machine": Kind("gpuproof.jobs.models.machine:MachineJob", "a machine"),
    "endpoint": Kind("gpuproof.jobs.models.endpoint:EndpointJob", "an endpoint", "gpuproof deploy"),
    "notebook": Kind(
        "gpuproof.jobs.models.notebook:NotebookJob", "a notebook instance", "gpuproof notebook create"
    ),
}
"""Every kind by the value of the key `kind`."""


def load_model(kind: str) -> type[JobModel]:
    """Returns the model of a kind.

    Raises:
        KeyError: there is no such kind.
    """
    module, _, name = KINDS[kind].model.partition(":")
    return getattr(import_module(module), name)


def load_models() -> Iterator[tuple[str, type[JobModel]]]:
    """Yields each kind and its model."""
    for kind in KINDS:
        yield kind, load_model(kind)
