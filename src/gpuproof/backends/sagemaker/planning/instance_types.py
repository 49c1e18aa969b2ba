"""Chooses the instance types to try for a job, in order."""

from __future__ import annotations

from collections.abc import Sequence

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
from gpuproof.catalogue.model import JobKind
from gpuproof.catalogue.search import InstanceQuery
from gpuproof.errors import InvalidJob
from gpuproof.jobs.models.script_jobs import SageMakerJob, TrainingJob
from gpuproof.util.humanize import join_words


def choose_instance_types(job: SageMakerJob, catalogue: Catalogue, region: str) -> InstanceChoice:
    """The job's `instance_type` and its `fallbacks`, or the types that match its `resources`, cheapest first.

    Raises:
        InvalidJob: the job names neither, a type does not support this kind of job, or no type matches.
    """
    if job.instance_type is None:
        return _by_resources(job, catalogue, region)
    return named_instance_types((job.instance_type, *job.fallbacks), job.kind, catalogue, region)


def named_instance_types(
    names: Sequence[str], kind: JobKind, catalogue: Catalogue, region: str
) -> InstanceChoice:
    """Types that the user has named, each once.

    Raises:
        InvalidJob: SageMaker does not accept a type for this kind of job.
    """
    unique = list(dict.fromkeys(names))
    warnings = [_type_warning(name, kind, catalogue, region) for name in unique]
    return InstanceChoice(
        tuple(_candidate(name, kind, catalogue, region) for name in unique),
        tuple(warning for warning in warnings if warning is not None),
    )


def _by_resources(job: SageMakerJob, catalogue: Catalogue, region: str) -> InstanceChoice:
    wanted = job.resources
    if wanted.gpu is None and wanted.gpu_memory is None:
        raise InvalidJob(
            f"'{job.name}' sets neither instance_type nor resources.gpu.",
            remedy=f"{_examples(job.kind, catalogue, region)}\nOr request a GPU: --gpu A10G:1",
        )
    reject_unknown_gpus(job, catalogue)
    spot = wanted.spot and isinstance(job, TrainingJob)
    # The spot price is not known beforehand; it never exceeds the on-demand price.
    request = resource_query(job, region, use=job.kind, any_price=spot)
    found = catalogue.search(request)
    if not found:
        raise InvalidJob(
            f"The catalogue knows no SageMaker instance type in {region} for '{job.name}' ({requirements_text(job)}).",
            remedy=f"{nearest_regions_line(request, catalogue)}Relax the requirements, or list the types: gpuproof gpus",
        )
    first = tuple(_candidate(match.name, job.kind, catalogue, region) for match in found[:MOST_CANDIDATES])
    others = [_candidate(name, job.kind, catalogue, region) for name in job.fallbacks]
    warnings = [
        warning for name in job.fallbacks if (warning := _type_warning(name, job.kind, catalogue, region))
    ]
    if spot and wanted.max_price is not None:
        warnings.append(
            "resources.max_price does not apply to spot prices, which AWS reports only afterwards"
        )
    return InstanceChoice((*first, *others), tuple(warnings))


def _candidate(name: str, kind: JobKind, catalogue: Catalogue, region: str) -> Candidate:
    return Candidate(name, catalogue.instance(name), catalogue.price(name, region, kind))


def _type_warning(name: str, kind: JobKind, catalogue: Catalogue, region: str) -> str | None:
    """A warning about a type that the job names; None if there is nothing to warn about.

    Raises:
        InvalidJob: SageMaker does not accept the type.
    """
    if not name.startswith("ml."):
        on_sagemaker = f"ml.{name}"
        raise InvalidJob(
            f"{name} is an EC2 instance type; SageMaker's types start with ml.",
            remedy=f"--instance-type {on_sagemaker}",
        )
    accepted = catalogue.accepted_for(name)
    if accepted and kind not in accepted:
        raise InvalidJob(
            f"{name} is not an instance type for {kind} jobs: SageMaker accepts it for {_usable_for(accepted)}.",
            remedy=list_alternatives(name, kind, catalogue, region) or _examples(kind, catalogue, region),
        )
    instance = catalogue.instance(name)
    if instance is None or not accepted:
        return (
            f"neither the catalogue nor the installed boto3 knows {name} as a type for {kind} jobs; "
            "SageMaker may reject it"
        )
    if instance.status == "retired":
        return f"{name} is no longer available according to the catalogue; SageMaker may reject it"
    if instance.retires_on:
        return f"{name} will be retired on {instance.retires_on}"
    return None


def _examples(kind: JobKind, catalogue: Catalogue, region: str) -> str:
    found = catalogue.search(InstanceQuery(region=region, service="sagemaker", use=kind))
    return instance_lines(found[:SHOWN], kind, catalogue, region) or "--instance-type ml.g5.xlarge"


def _usable_for(kinds: Sequence[JobKind]) -> str:
    names = {"endpoint": "endpoints", "transform": "batch transform", "notebook": "notebook instances"}
    return join_words([names.get(kind, kind) for kind in kinds])
