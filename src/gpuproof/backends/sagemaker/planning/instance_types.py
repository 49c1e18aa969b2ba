"""Which instance types to try for a job on SageMaker, in which order."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from gpuproof.catalogue import Catalogue
from gpuproof.catalogue.model import Instance, JobKind, Price
from gpuproof.catalogue.search import InstanceQuery
from gpuproof.errors import InvalidJob
from gpuproof.jobs.spec import Job, TrainingJob
from gpuproof.util.humanize import join_words

MOST_CANDIDATES = 4
"""Types that `resources` gives to try one after another: later ones cost much more than the first."""

_SHOWN = 3


@dataclass(frozen=True)
class Candidate:
    """An instance type to try.

    Args:
        name: `ml.g5.xlarge`.
        instance: what the catalogue knows of it; None for a type that it does not know.
        price: what an hour costs on demand; None where nobody knows.
    """

    name: str
    instance: Instance | None
    price: Price | None


@dataclass(frozen=True)
class Choice:
    """What to try.

    Args:
        candidates: in order, one at least.
        notes: what a person should know of the choice.
    """

    candidates: tuple[Candidate, ...]
    notes: tuple[str, ...] = ()


def choose(job: Job, catalogue: Catalogue, region: str) -> Choice:
    """The job's `instance_type` and its `fallbacks`, or the types that answer its `resources`, cheapest first.

    Raises:
        InvalidJob: the job names neither, a type is not for this kind of job, or nothing answers its resources.
    """
    if job.instance_type is None:
        return _by_resources(job, catalogue, region)
    names = list(dict.fromkeys([job.instance_type, *job.fallbacks]))
    notes = [note for name in names if (note := _note_on(name, job.kind, catalogue, region)) is not None]
    return Choice(tuple(_candidate(name, job.kind, catalogue, region) for name in names), tuple(notes))


def instead_of(
    name: str,
    kind: JobKind,
    catalogue: Catalogue,
    region: str,
    *,
    flag: str = "--instance-type",
    without: Collection[str] = (),
) -> str:
    """Other types for the same job, a line each, as flags to type; empty where nothing is known.

    Args:
        without: types that are out of the question.
    """
    instances = [one.instance for one in catalogue.replacements(name, kind, region)]
    others = [one for one in instances if one.name not in without]
    return _lines(others[:_SHOWN], kind, catalogue, region, flag)


def _by_resources(job: Job, catalogue: Catalogue, region: str) -> Choice:
    wanted = job.resources
    if wanted.gpu is None and wanted.gpu_memory is None:
        raise InvalidJob(
            f"'{job.name}' says neither an instance_type nor the GPU that it needs (resources.gpu).",
            remedy=f"{_examples(job.kind, catalogue, region)}\nOr ask for a GPU: --gpu A10G:1",
        )
    spot = wanted.spot and isinstance(job, TrainingJob)
    request = InstanceQuery(
        gpus=wanted.gpu.names if wanted.gpu else (),
        count=wanted.gpu.count if wanted.gpu else None,
        gpu_memory=wanted.gpu_memory,
        memory=wanted.memory,
        cpus=wanted.cpus,
        region=region,
        service="sagemaker",
        use=job.kind,
        # What spot costs is not known before; it is never more than on demand.
        max_price=None if wanted.max_price is None or spot else float(wanted.max_price.usd),
    )
    found = catalogue.search(request)
    if not found:
        raise InvalidJob(
            f"SageMaker has no instance type in {region} for what '{job.name}' asks for "
            f"({_asked(job)}), as far as the catalogue knows.",
            remedy="Ask for less, or look at what there is: gpuproof gpus",
        )
    first = tuple(_candidate(one.name, job.kind, catalogue, region) for one in found[:MOST_CANDIDATES])
    others = [_candidate(name, job.kind, catalogue, region) for name in job.fallbacks]
    notes = [note for name in job.fallbacks if (note := _note_on(name, job.kind, catalogue, region))]
    if spot and wanted.max_price is not None:
        notes.append("resources.max_price is not held against spot prices, which AWS tells only afterwards")
    return Choice((*first, *others), tuple(notes))


def _candidate(name: str, kind: JobKind, catalogue: Catalogue, region: str) -> Candidate:
    return Candidate(name, catalogue.instance(name), catalogue.price(name, region, kind))


def _note_on(name: str, kind: JobKind, catalogue: Catalogue, region: str) -> str | None:
    """What to know of a type by its name.

    Raises:
        InvalidJob: it cannot be meant.
    """
    if not name.startswith("ml."):
        on_sagemaker = f"ml.{name}"
        raise InvalidJob(
            f"{name} is EC2's name for an instance type, and SageMaker's begin with ml.",
            remedy=f"--instance-type {on_sagemaker}",
        )
    accepted = catalogue.accepted_for(name)
    if accepted and kind not in accepted:
        raise InvalidJob(
            f"{name} is no instance type for a {kind} job: SageMaker takes it for {_usable_for(accepted)}.",
            remedy=instead_of(name, kind, catalogue, region) or "gpuproof gpus --place sagemaker",
        )
    instance = catalogue.instance(name)
    if instance is None or not accepted:
        return (
            f"{name} is known neither to the catalogue nor to the installed boto3 as a type for {kind} jobs; "
            "SageMaker decides"
        )
    if instance.status == "retired":
        return f"{name} can no longer be had, as far as the catalogue knows; SageMaker decides"
    if instance.retires_on:
        return f"{name} ends on {instance.retires_on}"
    return None


def _examples(kind: JobKind, catalogue: Catalogue, region: str) -> str:
    found = catalogue.search(InstanceQuery(region=region, service="sagemaker", use=kind))
    return _lines(found[:_SHOWN], kind, catalogue, region) or "--instance-type ml.g5.xlarge"


def _lines(
    instances: Sequence[Instance],
    kind: JobKind,
    catalogue: Catalogue,
    region: str,
    flag: str = "--instance-type",
) -> str:
    lines: list[str] = []
    for one in instances:
        price = catalogue.price(one.name, region, kind)
        gpus = f"{one.whole_gpus:g} x {one.gpu_model}" if one.gpu_model else "no GPU"
        cost = f", ${price.usd_per_hour:.2f} an hour" if price else ""
        lines.append(f"{flag} {one.name}  ({gpus}{cost})")
    return "\n".join(lines)


def _asked(job: Job) -> str:
    wanted = job.resources
    parts = {
        "gpu": wanted.gpu,
        "gpu_memory": wanted.gpu_memory,
        "memory": wanted.memory,
        "cpus": wanted.cpus,
        "max_price": wanted.max_price,
    }
    return ", ".join(f"{key}: {value}" for key, value in parts.items() if value is not None)


def _usable_for(kinds: Sequence[JobKind]) -> str:
    names = {"endpoint": "endpoints", "transform": "batch transform", "notebook": "notebook instances"}
    return join_words([names.get(kind, kind) for kind in kinds])
