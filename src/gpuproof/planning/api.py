"""Plans a job or a script from Python: `gpuproof.plan("train.py", arguments=["--batch-size", "64"])`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
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
from gpuproof.planning.script_plan import Conditions, ScriptPlan, make_plan
from gpuproof.planning.served_model import is_served_model, served_model
from gpuproof.planning.tracing import TraceRequest, trace_two_batch_sizes
from gpuproof.units import Duration, Memory, UnitError

if TYPE_CHECKING:
    from gpuproof.jobs.models.script_jobs import TrainingJob
    from gpuproof.jobs.script_job import ScriptJob

DEFAULT_GPU = "A10G"
"""What the script is told that it has."""
_DEFAULT_REGION = "us-east-1"
_JOB_FILES = (".yaml", ".yml")


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
) -> ScriptPlan:
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

    Raises:
        NotTraceable: the script cannot be traced; the message has the line, the reason and what to do.
        GPUproofError: the job or an argument is invalid.
    """
    counts = {"epochs": epochs, "steps_per_epoch": steps_per_epoch, "gpus": gpus, "steps": steps}
    for label, value in counts.items():
        if value is not None and value < 1:
            raise UsageError(f"{label} must be at least 1.")
    if budget is not None and budget <= 0:
        raise UsageError("budget must be more than 0.")
    folders = {channel: str(Path(folder).absolute()) for channel, folder in (inputs or {}).items()}
    for channel, folder in folders.items():
        if not Path(folder).exists():
            raise UsageError(f"There is no folder {folder} for the channel {channel}.")
    catalogue = Catalogue.load()
    path = Path(job) if isinstance(job, (str, PathLike)) else None
    asked = (code, request, content_type) != (None, None, None)
    serving = asked or (path is not None and is_served_model(path))
    if serving:
        given = (
            name,
            arguments,
            inputs,
            epochs,
            steps_per_epoch,
            deadline,
            budget,
            start_up,
            inference or None,
            fit,
        )
        if path is None or any(option is not None for option in given):
            raise UsageError(
                "Of a model that answers requests, only region, on, gpus, gpu, spot, steps, timeout, max_memory and python can be chosen.",
                remedy="gpuproof.plan('inference.py', request='request.json')",
            )
        found: JobScript | Path = path
    else:
        found = _script(job, name, folders, None if arguments is None else tuple(arguments))
    script = found if isinstance(found, Path) else found.script
    if not serving and not script.is_file():
        raise UsageError(f"There is no script {script}.", remedy="gpuproof.plan('train.py')")
    of_job = None if isinstance(found, Path) else found
    count = gpus or (of_job.gpus if of_job is not None else None) or 1
    conditions = Conditions(
        region=_region(region or (of_job.region if of_job is not None else None), catalogue),
        service=on,
        gpus=count,
        epochs=epochs,
        steps_per_epoch=steps_per_epoch,
        deadline=None if deadline is None else _seconds(deadline, "deadline"),
        budget=budget,
        start_up=None if start_up is None else _seconds(start_up, "start_up"),
        spot=spot or (of_job is not None and of_job.spot),
    )
    traced = TraceRequest(
        script,
        tuple(arguments or ()) if of_job is None else of_job.arguments,
        find_interpreter(python),
        steps=steps,
        data=data,
        mode="inference" if inference else "training",
        timeout=_seconds(timeout, "timeout"),
        max_memory=_bytes(max_memory),
        gpu=_gpu(gpu, catalogue),
        gpus=count,
        folder=None if of_job is None else of_job.folder,
        contract=Contract(folders) if of_job is None else of_job.contract,
    )
    if not serving:
        return plan_request(traced, conditions, catalogue, fit)
    with TemporaryDirectory(prefix="gpuproof-plan-model-") as scratch:
        model = served_model(
            script,
            Path(scratch),
            code=None if code is None else Path(code),
            request=None if request is None else Path(request),
            content_type=content_type,
        )
        return plan_request(replace(traced, model=model), conditions, catalogue)


def plan_request(
    request: TraceRequest, conditions: Conditions, catalogue: Catalogue, fit: str | None = None
) -> ScriptPlan:
    """Trace a script, plan it, and store the plan in the user's history.

    Args:
        request: the script, and how to trace it.
        conditions: what the user wants.
        catalogue: GPUs, instances and prices.
        fit: name of a GPU for which `fit_options` are traced, too.

    Raises:
        NotTraceable: the script cannot be traced.
        UsageError: there is no GPU of the name `fit`.
    """
    coefficients = user_coefficients()
    traced = trace_two_batch_sizes(request)
    made = make_plan(catalogue, traced, conditions, coefficients)
    if request.model is not None:
        return made  # the history compares training jobs
    made = remember_plan(made, catalogue, coefficients, request)
    if fit is None:
        return made
    return replace(made, fit_options=find_fit_options(request, traced, made, fit, coefficients))


def _script(
    job: TrainingJob | ScriptJob | str | PathLike[str],
    name: str | None,
    folders: Mapping[str, str],
    arguments: tuple[str, ...] | None,
) -> JobScript | Path:
    """The script of a job, or a script without one."""
    from gpuproof.jobs.script_job import expanded

    if not isinstance(job, (str, PathLike)):
        described = expanded(job).with_absolute_paths(Path.cwd())
        if described.kind != "training":
            raise UsageError(
                "Only training jobs are planned.", remedy="gpuproof.plan with the path of a script"
            )
        return script_of_job(described, folders, arguments)
    path = Path(job)
    if path.suffix in _JOB_FILES or path.is_dir():
        from gpuproof.jobs.load import load_as
        from gpuproof.jobs.models.script_jobs import TrainingJob

        return script_of_job(load_as(path, name, TrainingJob), folders, arguments)
    if name is not None:
        raise UsageError("name is only for jobs.", remedy="gpuproof.plan('gpuproof.yaml')")
    return path


def _region(name: str | None, catalogue: Catalogue) -> str:
    region = name or _DEFAULT_REGION
    if region not in catalogue.tables.priced_regions:
        near = catalogue.misspelt_region(region)
        raise UsageError(
            f"The catalogue has no prices of {region}.",
            remedy=f"Did you mean {near}?" if near else f"region={_DEFAULT_REGION!r}",
        )
    return region


def _gpu(name: str, catalogue: Catalogue) -> Gpu:
    found = catalogue.gpu(name)
    if found is None or found.compute_capability is None:
        raise UsageError(f"The catalogue has no GPU {name} with CUDA.", remedy="`gpuproof gpus` lists them.")
    return found


def _seconds(given: str | float, label: str) -> float:
    try:
        seconds = float(Duration.parse(given).seconds) if isinstance(given, str) else float(given)
    except UnitError as error:
        raise UsageError(f"{label}: {error}.", remedy=f"{label}='2h'") from error
    if seconds <= 0:
        raise UsageError(f"{label} must be more than 0 seconds.")
    return seconds


def _bytes(given: str | int) -> int:
    try:
        return Memory.parse(given).bytes if isinstance(given, str) else given
    except UnitError as error:
        raise UsageError(f"max_memory: {error}.", remedy="max_memory='8GiB'") from error
