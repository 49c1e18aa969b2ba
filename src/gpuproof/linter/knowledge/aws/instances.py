"""The instance types of jobs: GPUs and price."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpuproof.linter.analysis.module import Module
from gpuproof.linter.analysis.values import Value
from gpuproof.linter.jobs.definition import CONTAINERS, JobDefinition
from gpuproof.linter.project import Project
from gpuproof.settings import today

if TYPE_CHECKING:
    from gpuproof.catalogue.model import Instance, JobKind, Price


def find_instance(project: Project, value: Value | str | None) -> Instance | None:
    """The instance type that a value names, known or default; None if it is unknown."""
    name = value.text if isinstance(value, Value) else value
    return project.instance(name) if name else None


def use_of(job: JobDefinition, instance: Instance) -> JobKind | None:
    """The kind of a job on SageMaker; None if its instance type is one of EC2, where GPUproof runs it."""
    if not instance.on_sagemaker and (job.source == "gpuproof" or not job.has_contract):
        return None
    return job.kind


def hourly_price(project: Project, name: str, use: str | None = None) -> Price | None:
    """The price of one instance in the project's region; None if the catalogue has none."""
    return project.catalogue.price(name, project.region, use)  # pyright: ignore[reportArgumentType]


def hourly_text(price: Price, times: float = 1.0) -> str:
    """`~$1.41 an hour, price as of 2025-04-04`: marked if derived, dated if more than a year old."""
    from gpuproof.catalogue import prices  # the catalogue takes long to import, and most scripts have no job

    return prices.hourly_text(price, today(), times)


def no_price(project: Project) -> str:
    """What a message says instead of a price that the catalogue does not have."""
    return f" (no price known in {project.region})"


def gpus_per_host(project: Project, job: JobDefinition) -> int | None:
    """GPUs of one host of a job; None if its instance type is unknown."""
    if job.gpu_count.number is not None:
        return int(job.gpu_count.number)
    found = find_instance(project, job.instance_type)
    return found.gpu_count if found is not None else None


def host_text(job: JobDefinition) -> str:
    """One host of a job, for messages: its instance type, `node` of a cluster, or `container`."""
    if job.instance_type.text:
        return f"`{job.instance_type.text}`"
    return "container" if job.source in ("container", *CONTAINERS) else "node"


def largest_job(project: Project, module: Module) -> JobDefinition | None:
    """The job with the most GPUs among those that run a module; None without a job."""
    return max(
        project.jobs_running(module),
        key=lambda job: (gpus_per_host(project, job) or 0) * int(job.instance_count.number or 1),
        default=None,
    )
