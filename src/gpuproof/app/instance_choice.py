"""`gpuproof run --instance-type auto`: the type that a plan of the script recommends, and predictions for `--on cheapest`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from gpuproof.backends.registry import CHEAPEST, load_backend
from gpuproof.errors import GPUproofError, UsageError
from gpuproof.util.humanize import format_duration, format_usd

if TYPE_CHECKING:
    from gpuproof.app.reporter import Reporter
    from gpuproof.backends.cheapest.prediction import Prediction
    from gpuproof.catalogue.model import ServiceName
    from gpuproof.jobs.script_job import AnyJob
    from gpuproof.planning.script_plan import ScriptPlan


class NoSuitableType(GPUproofError):
    """No instance type is recommended for the script."""


def recommend_type(job: AnyJob, on: str, reporter: Reporter, *, python: str | None = None) -> str:
    """Plan the script of a job, report why an instance type is recommended, and return it.

    Args:
        job: with absolute paths; its `max_duration` is the deadline.
        on: the backend, whose service's types are planned; SageMaker's for a run on this machine.
        python: the interpreter that has the script's framework.

    Raises:
        NoSuitableType: the script fits no GPU, or none within the time limit.
        NotTraceable: the script cannot be traced.
        UsageError: such a job is not planned.
    """
    request = job.resources.gpu
    if request is not None and request.names:
        raise UsageError(
            f"The job names its GPU, {', '.join(request.names)}: --instance-type auto chooses among all.",
            f"--gpu {request.count.low} says only how many, or leave out --instance-type.",
        )
    plan = _plan(job, reporter, service=_service(on), python=python)
    found = plan.recommendation
    if found is None:
        fits = any(gpu.fit.fit == "fits" for gpu in plan.gpus)
        raise NoSuitableType(
            "No instance type runs the script to its end within the job's max_duration."
            if fits
            else "The script is not sure to fit on any GPU that was planned.",
            "`gpuproof plan` shows what it needs on each GPU; --instance-type with a name runs it anyway.",
        )
    offer = found.offer
    spot = " with spot capacity" if offer.priced.market == "spot" else ""
    reporter.report(
        "type",
        f"{offer.priced.instance.name}{spot}, {format_usd(offer.usd.value)} in {format_duration(offer.seconds.value)}: {found.reason}",
    )
    return offer.priced.instance.name


def _service(on: str) -> ServiceName | None:
    """The service whose instance types are planned; None for all."""
    return None if on == CHEAPEST else load_backend(on).service


def predict(job: AnyJob, types: Sequence[str], reporter: Reporter) -> Mapping[str, Prediction]:
    """How long the script of a job takes on instance types, and whether it fits.

    Args:
        job: with absolute paths.
        types: EC2's names.

    Raises:
        GPUproofError: it cannot be planned.
    """
    from gpuproof.backends.cheapest.prediction import Prediction
    from gpuproof.catalogue import Catalogue
    from gpuproof.planning.history.user_coefficients import user_coefficients
    from gpuproof.planning.script_plan import on_instance

    catalogue = Catalogue.load()
    counts = {one.gpu_count for name in types if (one := catalogue.instance(name)) is not None}
    if len(counts) != 1:
        raise UsageError("the instance types have different numbers of GPUs")
    plan = _plan(job, reporter, service=None, python=None, gpus=counts.pop())
    coefficients = user_coefficients()
    found: dict[str, Prediction] = {}
    for name in types:
        instance = catalogue.instance(name)
        assert instance is not None
        known = on_instance(catalogue, plan, instance, coefficients)
        if known is not None:
            found[name] = Prediction(known.seconds.value, known.fit.fit != "does-not-fit")
    return found


def _plan(
    job: AnyJob,
    reporter: Reporter,
    *,
    service: ServiceName | None,
    python: str | None,
    gpus: int | None = None,
) -> ScriptPlan:
    from gpuproof.app.plan import plan
    from gpuproof.settings import aws_region

    if job.kind != "training":
        raise UsageError("Only the scripts of training jobs are planned.", "Name an instance type.")
    if job.instance_count > 1:
        raise UsageError("Only jobs on one host are planned.", "Name an instance type.")
    remote = [name for name, place in job.inputs.items() if place.startswith("s3://")]
    if remote:
        raise UsageError(
            f"The script cannot be planned: the data of the channel {remote[0]} is in S3.",
            f"gpuproof plan gpuproof.yaml --input {remote[0]}=FOLDER plans it with a few samples; "
            "name the type that it recommends.",
        )
    reporter.step("planning the script")
    try:
        limit = job.max_duration
        return plan(
            job,
            on=service,
            region=job.resources.region or aws_region(),
            deadline=None if limit is None else float(limit.seconds),
            python=python,
            gpus=gpus,
        )
    finally:
        reporter.end_progress()
