"""Chooses the backend on which a job is cheapest: by the price per hour, or by the predicted cost if the instance types differ."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from gpuproof.backends.aws.errors import AwsUnreachable, NoCredentials
from gpuproof.backends.base import Backend, Plan, PlanOptions
from gpuproof.backends.cheapest.candidate import Candidate
from gpuproof.backends.cheapest.prediction import Predict, Prediction
from gpuproof.backends.errors import failure_group
from gpuproof.backends.offer import Offer
from gpuproof.errors import ExitCode, GPUproofError
from gpuproof.jobs.models.script_jobs import Job, TrainingJob
from gpuproof.jobs.script_job import expanded
from gpuproof.util.humanize import format_duration, format_usd

if TYPE_CHECKING:
    from gpuproof.agent.job import PlannedFlops
    from gpuproof.jobs.script_job import AnyJob

_SAGEMAKER_PREFIX = "ml."
_EXIT_CODES = (ExitCode.AWS_REFUSED, ExitCode.UNDECIDED, ExitCode.USAGE)
"""The first of these that a backend failed with is that of `NowhereToRun`: a larger quota may be all that is needed."""


class NowhereToRun(GPUproofError):
    """No backend can run the job; the message has the reason for each."""

    def __init__(self, message: str, remedy: str | None, candidates: Sequence[Candidate]) -> None:
        super().__init__(message, remedy)
        self.candidates = tuple(candidates)


@dataclass(frozen=True)
class Choice:
    """The backend that was chosen for a job.

    Args:
        candidates: everything that was compared; the chosen one is first.
        note: why prices per hour were compared although the instance types differ; empty otherwise.
    """

    backend: Backend[Any]
    plan: Plan
    candidates: tuple[Candidate, ...]
    note: str = ""

    @property
    def text(self) -> str:
        """What was chosen, the others, except spot capacity at an unknown price, and how they were compared if not by time."""
        first, *others = self.candidates
        shown = [
            candidate
            for candidate in _without_repetition(others)
            if candidate.offer is None or not candidate.offer.is_limit
        ]
        rest = ["; ".join(entry.summary for entry in shown), self.note]
        return "\n".join([first.summary, *(line for line in rest if line)])


@dataclass(frozen=True)
class _Planned:
    """A plan, or the error of planning, on one backend in one market."""

    backend: Backend[Any]
    spot: bool
    plan: Plan | None
    error: GPUproofError | None = None

    @property
    def offer(self) -> Offer | None:
        return self.plan.offer if self.plan is not None else None

    @property
    def price(self) -> float | None:
        return self.offer.usd_per_hour if self.offer is not None else None

    @property
    def ec2_type(self) -> str:
        return "" if self.offer is None else self.offer.instance_type.removeprefix(_SAGEMAKER_PREFIX)

    def candidate(
        self, reason: str, *, chosen: bool = False, prediction: Prediction | None = None
    ) -> Candidate:
        return Candidate(
            self.backend.name, self.backend.location, self.spot, self.offer, chosen, reason, prediction
        )


@dataclass(frozen=True)
class _Comparison:
    """How candidates are compared.

    Args:
        predictions: by EC2's name of the type; empty to compare prices per hour.
        note: why these are compared although the types differ.
    """

    predictions: Mapping[str, Prediction] = field(default_factory=dict[str, Prediction])
    note: str = ""

    def of(self, one: _Planned) -> Prediction | None:
        return self.predictions.get(one.ec2_type)

    def cost(self, one: _Planned) -> float:
        """In USD an hour, or for the whole job."""
        known, price = self.of(one), one.price or 0.0
        return price if known is None else known.usd(price)

    def fits(self, one: _Planned) -> bool:
        known = self.of(one)
        return known is None or known.fits


def choose_backend(
    backends: Sequence[type[Backend[Any]]],
    job: AnyJob,
    *,
    fresh: bool = False,
    dry_run: bool = False,
    wait: bool = False,
    profile: str | None = None,
    notify: Callable[[str], None] | None = None,
    predict: Predict | None = None,
    planned_flops: PlannedFlops | None = None,
) -> Choice:
    """Plan a job on each backend, on demand and with spot capacity, and choose the cheapest. Creates nothing.

    Spot capacity is chosen only if the job requests it or names a checkpoint: an interruption loses the work of others.

    Args:
        backends: to compare, in the job's region; the first of several with the same price is chosen.
        job: with absolute paths.
        fresh: start without an earlier run's checkpoints.
        dry_run: whether the plan is only shown.
        wait: whether the run will be followed to its end.
        profile: the AWS profile; the default one if None.
        notify: called with each step.
        planned_flops: of a step of the script, if it was planned.
        predict: called if the backends would use different instance types: the cost of the whole job decides then.

    Raises:
        GPUproofError: none of them can run the job.
    """
    portable = _portable(expanded(job))
    planned = [
        item
        for backend in backends
        for item in _plan_on(
            backend.open(region=job.resources.region, profile=profile),
            portable,
            PlanOptions(
                fresh=fresh, check_quota=True, dry_run=dry_run, wait=wait, planned_flops=planned_flops
            ),
            notify or _ignore,
        )
    ]
    against_spot = _objection_to_spot(portable)
    usable = [plan for plan in planned if plan.price is not None and not (plan.spot and against_spot)]
    if not usable:
        raise _nowhere(planned, against_spot)
    compared = _compare(usable, predict)
    fitting = [plan for plan in usable if compared.fits(plan)]
    if not fitting:
        # Whether it fits is an estimate: the user's request decides.
        compared = _Comparison(note="The script is estimated to fit none of these GPUs (`gpuproof plan`).")
        fitting = usable
    # At the same price, or up to it, spot capacity precedes.
    chosen = min(fitting, key=lambda one: (compared.cost(one), not one.spot))
    assert chosen.plan is not None
    others = [
        plan.candidate(_reason_against(plan, chosen, compared, against_spot), prediction=compared.of(plan))
        for plan in planned
        if plan is not chosen
    ]
    first = chosen.candidate(
        _reason_for(chosen, compared, len(usable)), chosen=True, prediction=compared.of(chosen)
    )
    return Choice(chosen.backend, chosen.plan, (first, *others), compared.note)


def _compare(usable: Sequence[_Planned], predict: Predict | None) -> _Comparison:
    """Predictions if the types differ: on the same type, a job takes the same time everywhere."""
    types = sorted({plan.ec2_type for plan in usable})
    if predict is None or len(types) == 1:
        return _Comparison()
    try:
        predictions = predict(types)
    except GPUproofError as error:
        return _Comparison(
            note=f"Compared by the price of an hour, because the time is not known: {error.message.splitlines()[0]}"
        )
    missing = [name for name in types if name not in predictions]
    if missing:
        return _Comparison(
            note=f"Compared by the price of an hour, because the time on {missing[0]} is not known."
        )
    return _Comparison(predictions)


def _reason_for(chosen: _Planned, compared: _Comparison, count: int) -> str:
    known = compared.of(chosen)
    if known is not None:
        return f"the lowest predicted cost, {format_usd(compared.cost(chosen))} in {format_duration(known.seconds)}"
    return "the lowest price" if count > 1 else "the only backend available to this job"


def _plan_on(
    backend: Backend[Any], job: Job, options: PlanOptions, notify: Callable[[str], None]
) -> Iterator[_Planned]:
    """The plans on a backend: on demand, and with spot capacity if it has any for the job."""
    options = replace(options, flags={flag.destination: flag.default for flag in backend.flags})
    for spot in (False, True):
        notify(f"Planning {backend.location}{' with spot capacity' if spot else ''} …")
        resources = job.resources.model_copy(update={"spot": spot})
        try:
            plan = backend.plan(job.model_copy(update={"resources": resources}), options)
        except GPUproofError as error:
            if isinstance(error, NoCredentials) or getattr(error, "is_sign_in", False):
                raise  # the others have the same account
            yield _Planned(backend, spot, None, error)
            if isinstance(error, AwsUnreachable):
                return  # a second attempt would take as long
        else:
            if not spot or (plan.offer is not None and plan.offer.spot):
                yield _Planned(backend, spot, plan)


def _portable(job: Job) -> Job:
    """The job with SageMaker's names of instance types, which every backend on AWS takes."""
    names = [*((job.instance_type,) if job.instance_type is not None else ()), *job.fallbacks]
    own = [f"{_SAGEMAKER_PREFIX}{name.removeprefix(_SAGEMAKER_PREFIX)}" for name in names]
    if job.instance_type is None:
        return job.model_copy(update={"fallbacks": tuple(own)})
    return job.model_copy(update={"instance_type": own[0], "fallbacks": tuple(own[1:])})


def _objection_to_spot(job: Job) -> str | None:
    """Why the job must not run with spot capacity; None if it may."""
    if job.resources.spot:
        return None
    if "spot" in job.resources.model_fields_set:
        return "the job excludes spot capacity (--spot allows it)"
    if isinstance(job, TrainingJob) and job.checkpoint is not None:
        return None
    return "an interruption would lose the work of a job without checkpoint (--spot allows it)"


def _reason_against(
    one: _Planned, chosen: _Planned | None, compared: _Comparison, against_spot: str | None
) -> str:
    if one.error is not None:
        return one.error.message
    if one.spot and against_spot:
        return against_spot
    if one.price is None:
        return "its price is unknown"
    if not compared.fits(one):
        return "the script does not fit its GPU's memory"
    lowest, cost = compared.cost(chosen) if chosen is not None else 0.0, compared.cost(one)
    more = cost / lowest - 1 if lowest else 0.0
    relation = f"{more:.0%} more" if more >= 0.005 else "not cheaper"
    known = compared.of(one)
    return (
        relation if known is None else f"{relation}, {format_usd(cost)} in {format_duration(known.seconds)}"
    )


def _nowhere(planned: Sequence[_Planned], against_spot: str | None) -> GPUproofError:
    """The error of a job that can run nowhere: the one that all backends have, or one that lists theirs."""
    errors = [plan.error for plan in planned if plan.error is not None]
    if len(errors) == len(planned) and len({(failure_group(error), error.message) for error in errors}) == 1:
        return errors[0]
    candidates = [
        plan.candidate(_reason_against(plan, None, _Comparison(), against_spot)) for plan in planned
    ]
    lines = "\n".join(candidate.text for candidate in _without_repetition(candidates))
    remedies = [error.remedy for error in errors if error.remedy]
    if any(plan.plan is not None and plan.price is None for plan in planned):
        remedies.append(
            "gpuproof catalogue refresh reads prices; --on with a backend's name runs the job without one."
        )
    nowhere = NowhereToRun(
        f"No backend can run the job:\n{lines}", "\n".join(dict.fromkeys(remedies)) or None, candidates
    )
    codes = {error.exit_code for error in errors}
    nowhere.exit_code = next((code for code in _EXIT_CODES if code in codes), ExitCode.FAILED)
    return nowhere


def _ignore(text: str) -> None:
    """Take a step without showing it."""


def _without_repetition(candidates: Sequence[Candidate]) -> list[Candidate]:
    """The candidates, without spot capacity where the same reason excludes the backend on demand."""
    failed = {
        (candidate.backend, candidate.reason)
        for candidate in candidates
        if candidate.offer is None and not candidate.spot
    }
    return [
        candidate
        for candidate in candidates
        if not (
            candidate.spot and candidate.offer is None and (candidate.backend, candidate.reason) in failed
        )
    ]
