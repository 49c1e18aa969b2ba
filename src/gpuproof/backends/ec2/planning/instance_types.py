"""Chooses the EC2 instance types to try for a job, in order."""

from __future__ import annotations

from gpuproof.backends.agent_job.expected_gpus import reject_unknown_gpus
from gpuproof.backends.remote.planning.instance_search import (
    MOST_CANDIDATES,
    SHOWN,
    Candidate,
    InstanceChoice,
    instance_lines,
    list_alternatives,
    nearest_regions_line,
    requirements_text,
    resource_query,
)
from gpuproof.catalogue import Catalogue
from gpuproof.catalogue.search import InstanceQuery
from gpuproof.errors import InvalidJob
from gpuproof.jobs.models.script_jobs import Job

_SAGEMAKER_PREFIX = "ml."
_ON_DEMAND, _SPOT = "on-demand", "spot"


def choose_instance_types(job: Job, catalogue: Catalogue, region: str) -> InstanceChoice:
    """The job's `instance_type` and its `fallbacks`, or the types that match its `resources`, cheapest first.

    A SageMaker type (`ml.g5.xlarge`) stands for the EC2 type that it consists of.

    Raises:
        InvalidJob: the job names neither, a type cannot be launched, or no type matches.
    """
    if job.instance_type is None:
        return _by_resources(job, catalogue, region)
    names = list(dict.fromkeys(map(ec2_name, [job.instance_type, *job.fallbacks])))
    warnings = [warning for name in names if (warning := _type_warning(name, job, catalogue, region))]
    return InstanceChoice(tuple(_candidate(name, catalogue, region) for name in names), tuple(warnings))


def ec2_name(name: str) -> str:
    """The EC2 type of `g5.xlarge` or `ml.g5.xlarge`."""
    return name.removeprefix(_SAGEMAKER_PREFIX)


def _by_resources(job: Job, catalogue: Catalogue, region: str) -> InstanceChoice:
    wanted = job.resources
    if wanted.gpu is None and wanted.gpu_memory is None:
        raise InvalidJob(
            f"'{job.name}' sets neither instance_type nor resources.gpu.",
            remedy=f"{_examples(catalogue, region)}\nOr request a GPU: --gpu A10G:1",
        )
    reject_unknown_gpus(job, catalogue)
    market = _SPOT if wanted.spot else _ON_DEMAND
    # With spot, max_price limits the bid.
    request = resource_query(job, region, use=None, any_price=wanted.spot, market=market)
    found = [instance for instance in catalogue.search(request) if market in instance.usage]
    if not found:
        raise InvalidJob(
            f"The catalogue knows no EC2 instance type in {region} for '{job.name}' ({requirements_text(job)}).",
            remedy=f"{nearest_regions_line(request, catalogue)}Relax the requirements, or list the types: gpuproof gpus",
        )
    names = [match.name for match in found[:MOST_CANDIDATES]]
    others = [name for name in map(ec2_name, job.fallbacks) if name not in names]
    warnings = [warning for name in others if (warning := _type_warning(name, job, catalogue, region))]
    return InstanceChoice(
        tuple(_candidate(name, catalogue, region) for name in dict.fromkeys([*names, *others])),
        tuple(warnings),
    )


def _candidate(name: str, catalogue: Catalogue, region: str) -> Candidate:
    return Candidate(name, catalogue.instance(name), catalogue.price(name, region))


def _type_warning(name: str, job: Job, catalogue: Catalogue, region: str) -> str | None:
    """A warning about a type that the job names; None if there is nothing to warn about.

    Raises:
        InvalidJob: it cannot be launched as the job wants.
    """
    instance = catalogue.instance(name)
    if instance is None:
        return f"the catalogue does not know {name}; EC2 may reject it"
    alternatives = (
        list_alternatives(name, None, catalogue, region) or "The types that GPUproof knows: gpuproof gpus"
    )
    if instance.accelerator not in ("gpu", "none"):
        raise InvalidJob(
            f"{name} has {instance.accelerator} accelerators, which GPUproof does not support on EC2.",
            remedy=alternatives,
        )
    market = _SPOT if job.resources.spot else _ON_DEMAND
    if instance.usage and market not in instance.usage:
        sold = " or ".join(instance.usage)
        what = "a spot instance" if job.resources.spot else "an on-demand instance"
        raise InvalidJob(
            f"EC2 sells {name} only as {sold}, and the job requests {what}.", remedy=alternatives
        )
    if instance.status == "retired":
        return f"{name} is no longer available according to the catalogue; EC2 may reject it"
    if instance.retires_on:
        return f"{name} will be retired on {instance.retires_on}"
    return None


def _examples(catalogue: Catalogue, region: str) -> str:
    found = catalogue.search(InstanceQuery(region=region, service="ec2"))
    return instance_lines(found[:SHOWN], None, catalogue, region) or "--instance-type g5.xlarge"
