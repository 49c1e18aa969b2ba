"""Determines which GPUs a job requests."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from gpuproof.catalogue import Catalogue
from gpuproof.errors import InvalidJob
from gpuproof.util.spelling import nearest_words

if TYPE_CHECKING:
    from gpuproof.jobs.script_job import AnyJob


@dataclass(frozen=True)
class ExpectedGpus:
    """The GPUs that a job requests on each host.

    Args:
        count: number of GPUs; `None` if the job does not mention GPUs.
        name: their model, such as `A10G`; `None` if any model is accepted.
        unknown: the instance type, if the catalogue does not know it, so that nothing is expected.
    """

    count: int | None
    name: str | None = None
    because: str = "the job does not mention GPUs"
    unknown: str | None = None


def expected_gpus(job: AnyJob, catalogue: Catalogue) -> ExpectedGpus:
    """The GPUs that the job's `instance_type` has, or else that its `resources` or `require_gpu` request."""
    if job.instance_type is not None:
        return _from_instance(job.instance_type, catalogue)
    wanted = job.resources.gpu
    if wanted is not None:
        names = ", ".join(wanted.names) or None
        written = str(wanted).removeprefix(":")
        return ExpectedGpus(wanted.count.low or 1, names, f"resources.gpu: {written}")
    if job.resources.gpu_memory is not None:
        return ExpectedGpus(1, None, f"resources.gpu_memory: {job.resources.gpu_memory}")
    if job.require_gpu:
        return ExpectedGpus(1, None, "require_gpu: true")
    return ExpectedGpus(None)


def reject_unknown_gpus(job: AnyJob, catalogue: Catalogue) -> None:
    """Reject a job that requests a GPU which no AWS instance type has.

    Raises:
        InvalidJob: with the nearest names.
    """
    from gpuproof.catalogue.search import matching_gpus

    known = catalogue.tables.gpus
    names = job.resources.gpu.names if job.resources.gpu is not None else ()
    unknown = next((name for name in names if not matching_gpus((name,), known.values())), None)
    if unknown is None:
        return
    near = nearest_words(unknown, known, 3, cutoff=0.5)
    raise InvalidJob(
        f"'{job.name}' requests the GPU {unknown}, which no AWS instance type has.",
        remedy=f"Did you mean {' or '.join(near)}?" if near else "gpuproof gpus lists the GPUs.",
    )


def _from_instance(name: str, catalogue: Catalogue) -> ExpectedGpus:
    instance = catalogue.instance(name)
    if instance is None:
        return ExpectedGpus(None, because=f"the catalogue does not know instance_type {name}", unknown=name)
    if instance.gpu_count == 0:
        return ExpectedGpus(0, None, f"instance_type: {name} has no GPU")
    return ExpectedGpus(instance.gpu_count, instance.gpu_model, f"instance_type: {name}")
