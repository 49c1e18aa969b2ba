"""Plans a script, a job or a model without a GPU: `gpuproof plan`, and `gpuproof.plan` in Python."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from os import PathLike
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Literal

from gpuproof.backends.interpreter import find_interpreter
from gpuproof.catalogue import Catalogue
from gpuproof.catalogue.model import Gpu, ServiceName
from gpuproof.errors import UsageError
from gpuproof.planning.contract import Contract
from gpuproof.planning.fit_options import find_fit_options
from gpuproof.planning.history.plan_entry import remember_plan
from gpuproof.planning.history.user_coefficients import user_coefficients
from gpuproof.planning.job_request import JobScript, script_of_job
from gpuproof.planning.recommendation import Conditions
from gpuproof.planning.result import PlanResult
from gpuproof.planning.script_plan import ScriptPlan, make_plan
from gpuproof.planning.served_model import is_served_model, served_model
from gpuproof.planning.trace_cache import traced_or_cached
from gpuproof.planning.tracing import ServedModel, TraceRequest
from gpuproof.trace.launcher import AUTO
from gpuproof.units import Duration, Memory, UnitError

if TYPE_CHECKING:
    from gpuproof.jobs.models.script_jobs import TrainingJob
    from gpuproof.jobs.script_job import ScriptJob

DEFAULT_GPU = "A10G"
"""What the script is told that it has."""
_DEFAULT_REGION = "us-east-1"
_JOB_FILES = (".yaml", ".yml")
_FOR_SCRIPTS = (
    *("name", "arguments", "inputs", "epochs", "steps_per_epoch", "deadline", "budget", "start_up"),
    *("inference", "fit"),
)
_FLAGS = {"name": "JOB", "arguments": "arguments after --", "inputs": "--input"}
"""What the command calls these options; it calls the others `--name-of-the-option`."""


@dataclass(frozen=True)
class PlanRequest:
    """What to plan, and how; the options are those of `gpuproof.plan`.

    Args:
        job: a job, or the path of a script, a job file, a handler or a model.
        is_command: whether errors name the flags of the command.
    """

    job: TrainingJob | ScriptJob | Path
    name: str | None = None
    arguments: tuple[str, ...] | None = None
    inputs: Mapping[str, str] = field(default_factory=dict[str, str])
    epochs: int | None = None
    steps_per_epoch: int | None = None
    deadline: str | float | None = None
    budget: float | None = None
    spot: bool = False
    start_up: str | float | None = None
    region: str | None = None
    on: ServiceName | None = None
    gpus: int | None = None
    gpu: str = DEFAULT_GPU
    steps: int = 3
    timeout: str | float = "5m"
    max_memory: str | int = "4GiB"
    inference: bool = False
    fit: str | None = None
    python: str | None = None
    data: Literal["script", "synthetic"] = "script"
    code: Path | None = None
    request: Path | None = None
    content_type: str | None = None
    cache: bool = True
    is_command: bool = False

    def label(self, option: str) -> str:
        """What the user calls an option."""
        return _FLAGS.get(option, f"--{option.replace('_', '-')}") if self.is_command else option

    def example(self, option: str, value: str | int) -> str:
        """An option with a value, as the user writes it."""
        return f"{self.label(option)} {value}" if self.is_command else f"{option}={value!r}"

    @property
    def is_model(self) -> bool:
        """Whether a model that answers requests is planned."""
        if (self.code, self.request, self.content_type) != (None, None, None):
            return True
        return isinstance(self.job, Path) and is_served_model(self.job)


def plan(
    job: TrainingJob | ScriptJob | str | PathLike[str],
    *,
    name: str | None = None,
    arguments: Sequence[str] | None = None,
    inputs: Mapping[str, str | PathLike[str]] | None = None,
    epochs: int | None = None,
    steps_per_epoch: int | None = None,
    deadline: str | float | None = None,
    budget: float | None = None,
    spot: bool = False,
    start_up: str | float | None = None,
    region: str | None = None,
    on: ServiceName | None = None,
    gpus: int | None = None,
    gpu: str = DEFAULT_GPU,
    steps: int = 3,
    timeout: str | float = "5m",
    max_memory: str | int = "4GiB",
    inference: bool = False,
    fit: str | None = None,
    python: str | None = None,
    data: Literal["script", "synthetic"] = "script",
    code: str | PathLike[str] | None = None,
    request: str | PathLike[str] | None = None,
    content_type: str | None = None,
    cache: bool = True,
) -> PlanResult:
    """Estimate memory, time and cost of a script on each GPU that AWS offers, as `gpuproof plan` does.

    The script runs in a process of its own on this machine, without a GPU, and ends after a few steps.

    Args:
        job: a `TrainingJob`, the path of a script, of a `gpuproof.yaml` or its folder, or of a handler or a model; relative paths are relative to the
            working directory.
        name: which job of a job file with several.
        arguments: of the script; they replace those of a job.
        inputs: folders with a few samples, by channel: those that they replace of a job, or those of a script.
        epochs: passes over the data; what the script says, or one, if not given.
        steps_per_epoch: the data loader's length if not given.
        deadline: recommend only what takes less time: seconds, or a text such as `8h`.
        budget: recommend only what costs less, in USD.
        spot: recommend spot capacity, too.
        start_up: billed time before the script's first line: seconds, or a text such as `3m`; that of the service if not given.
        region: whose prices count; that of the job, or us-east-1, if not given.
        on: only this service; both if not given.
        gpus: of the instance, all of which the script uses; those of the job, or one, if not given.
        gpu: which GPU the script is told it has.
        steps: to trace.
        timeout: for tracing: seconds, or a text such as `5m`.
        max_memory: of this machine for each of two traces: bytes, or a text such as `4GiB`.
        inference: steps are calls of the model, not of an optimizer.
        fit: name of a GPU; the plan's `fit_options` are changes of the script that need less memory there, traced again.
        python: the interpreter that has the script's framework; as for `gpuproof.run` if not given.
        data: `synthetic` for zeros in place of the public data sets that `gpuproof plan --data` lists.
        code: handler of a model: its file, or the folder that becomes `code/`.
        request: file with the body of a request that a model answers; zeros in a shape that it accepts if not given.
        content_type: of the request's body; by the file's suffix if not given.
        cache: use the traces of an earlier plan if neither the script nor anything that it read has changed since.

    Raises:
        NotTraceable: the script cannot be traced; the message has the line, the reason and what to do.
        GPUproofError: the job or an argument is invalid.
    """
    folders = {channel: str(Path(folder).absolute()) for channel, folder in (inputs or {}).items()}
    for channel, folder in folders.items():
        if not Path(folder).exists():
            raise UsageError(f"There is no folder {folder} for the channel {channel}.")
    asked = PlanRequest(
        Path(job) if isinstance(job, (str, PathLike)) else job,
        name=name,
        arguments=None if arguments is None else tuple(arguments),
        inputs=folders,
        epochs=epochs,
        steps_per_epoch=steps_per_epoch,
        deadline=deadline,
        budget=budget,
        spot=spot,
        start_up=start_up,
        region=region,
        on=on,
        gpus=gpus,
        gpu=gpu,
        steps=steps,
        timeout=timeout,
        max_memory=max_memory,
        inference=inference,
        fit=fit,
        python=python,
        data=data,
        code=None if code is None else Path(code),
        request=None if request is None else Path(request),
        content_type=content_type,
        cache=cache,
    )
    with TemporaryDirectory(prefix="gpuproof-plan-model-") as scratch:
        return make_script_plan(asked, Path(scratch))


def make_script_plan(request: PlanRequest, scratch: Path) -> PlanResult:
    """Trace what is asked for, plan it, and store the plan of a script in the user's history.

    Args:
        scratch: an empty folder, for the files of a model.

    Raises:
        NotTraceable: the script cannot be traced.
        GPUproofError: the job or an option is invalid.
    """
    _reject_numbers(request)
    catalogue = Catalogue.load()
    found = None if request.is_model else _script(request, catalogue)
    if isinstance(found, JobScript):
        script, job = found.script, found
    else:
        script, job = _path(request), None
    if found is not None and not script.is_file():
        raise UsageError(f"There is no script {script}.", remedy="gpuproof plan train.py -- --batch-size 64")
    gpus = request.gpus or (job.gpus if job is not None else None) or 1
    conditions = Conditions(
        region=_region(request, job, catalogue),
        service=request.on,
        gpus=gpus,
        hosts=1 if job is None else job.hosts,
        epochs=request.epochs,
        steps_per_epoch=request.steps_per_epoch,
        deadline=_seconds(request, "deadline"),
        budget=request.budget,
        start_up=_seconds(request, "start_up"),
        spot=request.spot or (job is not None and job.spot),
    )
    traced = TraceRequest(
        script,
        (request.arguments or ()) if job is None else job.arguments,
        find_interpreter(request.python),
        steps=request.steps,
        data=request.data,
        mode="inference" if request.inference else "training",
        timeout=_seconds(request, "timeout") or 0.0,
        max_memory=_bytes(request),
        gpu=_gpu(request, catalogue),
        gpus=gpus,
        folder=None if job is None else job.folder,
        contract=Contract(dict(request.inputs)) if job is None else job.contract,
        model=_model(request, scratch) if request.is_model else None,
        launcher=AUTO if job is None else job.launcher,
    )
    name = str(request.job) if isinstance(request.job, Path) else script.name
    return PlanResult.of(_plan(traced, conditions, catalogue, request), name)


def _plan(
    request: TraceRequest, conditions: Conditions, catalogue: Catalogue, asked: PlanRequest
) -> ScriptPlan:
    coefficients = user_coefficients()
    traced = traced_or_cached(request, use_cache=asked.cache)
    made = make_plan(catalogue, traced, conditions, coefficients)
    if request.model is not None:
        return made  # the history compares training jobs
    made = remember_plan(made, catalogue, coefficients, request)
    if asked.fit is None:
        return made
    return replace(made, fit_options=find_fit_options(request, traced, made, asked.fit, coefficients))


def _script(request: PlanRequest, catalogue: Catalogue) -> JobScript | Path:
    """The script of a job, or a script without one."""
    from gpuproof.jobs.script_job import expanded

    job = request.job
    if not isinstance(job, Path):
        described = expanded(job).with_absolute_paths(Path.cwd())
        if described.kind != "training":
            raise UsageError(
                "Only training jobs are planned.", remedy="gpuproof.plan with the path of a script"
            )
        return script_of_job(described, request.inputs, request.arguments, catalogue)
    if job.suffix in _JOB_FILES or job.is_dir():
        from gpuproof.jobs.load import load_as
        from gpuproof.jobs.models.script_jobs import TrainingJob

        described = load_as(job, request.name, TrainingJob)
        return script_of_job(described, request.inputs, request.arguments, catalogue)
    if request.name is not None:
        raise UsageError(f"{request.label('name')} is only for job files.", "gpuproof plan gpuproof.yaml")
    return job


def _model(request: PlanRequest, scratch: Path) -> ServedModel:
    from gpuproof.backends.sagemaker.endpoints.invocation.payload import check_content_type

    path = _path(request)
    given = [option for option in _FOR_SCRIPTS if getattr(request, option)]
    if request.data != "script":
        given.append("data")
    if given:
        names = ", ".join(request.label(option) for option in given)
        raise UsageError(
            f"{names}: only for scripts; {path} is planned as a model that answers requests.",
            remedy=f"gpuproof plan {path} --request FILE",
        )
    return served_model(
        path,
        scratch,
        code=request.code,
        request=request.request,
        content_type=check_content_type(request.label("content_type"), request.content_type),
    )


def _path(request: PlanRequest) -> Path:
    if not isinstance(request.job, Path):
        raise UsageError("A job has no model that answers requests.", "gpuproof.plan('inference.py')")
    return request.job


def _reject_numbers(request: PlanRequest) -> None:
    for option in ("epochs", "steps_per_epoch", "gpus", "steps"):
        value = getattr(request, option)
        if value is not None and value < 1:
            raise UsageError(f"{request.label(option)} must be at least 1.")
    if request.budget is not None and request.budget <= 0:
        raise UsageError(f"{request.label('budget')} must be more than 0.")


def _region(request: PlanRequest, job: JobScript | None, catalogue: Catalogue) -> str:
    region = request.region or (job.region if job is not None else None) or _DEFAULT_REGION
    if region not in catalogue.tables.priced_regions:
        near = catalogue.misspelt_region(region)
        raise UsageError(
            f"The catalogue has no prices of {region}.",
            remedy=f"Did you mean {near}?" if near else request.example("region", _DEFAULT_REGION),
        )
    return region


def _gpu(request: PlanRequest, catalogue: Catalogue) -> Gpu:
    found = catalogue.gpu(request.gpu)
    if found is None or found.compute_capability is None:
        names = sorted(gpu.name for gpu in catalogue.tables.gpus.values() if gpu.compute_capability)
        raise UsageError(
            f"The catalogue has no GPU {request.gpu} with CUDA.",
            remedy=f"{request.label('gpu')} is one of: {', '.join(names)}",
        )
    return found


def _seconds(request: PlanRequest, option: str) -> float | None:
    given: str | float | None = getattr(request, option)
    if given is None:
        return None
    try:
        seconds = float(Duration.parse(given).seconds if isinstance(given, str) else given)
    except UnitError as error:
        raise UsageError(f"{request.label(option)}: {error}.", request.example(option, "2h")) from error
    if seconds <= 0:
        raise UsageError(f"{request.label(option)} must be more than 0 seconds.")
    return seconds


def _bytes(request: PlanRequest) -> int:
    given = request.max_memory
    try:
        return Memory.parse(given).bytes if isinstance(given, str) else given
    except UnitError as error:
        raise UsageError(
            f"{request.label('max_memory')}: {error}.", request.example("max_memory", "8GiB")
        ) from error
