"""What the script of a job needs of its GPUs' memory, by a trace without a GPU: `gpuproof check --plan`."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpuproof.linter.analysis.values import ABSENT, Value
from gpuproof.linter.jobs.definition import JobDefinition

if TYPE_CHECKING:
    from gpuproof.catalogue import Catalogue
    from gpuproof.catalogue.model import Gpu, Instance
    from gpuproof.planning.estimates import FitResult, Interval
    from gpuproof.planning.tracing import TracedSizes, TraceRequest
    from gpuproof.trace.document import Note


@dataclass(frozen=True)
class TraceOptions:
    """How scripts are traced.

    Args:
        timeout: seconds for one script.
    """

    python: str
    inputs: tuple[tuple[str, str], ...] = ()
    timeout: float = 300.0


class NotPlanned(Exception):
    """The memory of a job is not known.

    Args:
        reason: why, as a sentence without a subject's name.
    """

    def __init__(self, reason: str, remedy: str | None = None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.remedy = remedy


@dataclass(frozen=True)
class MemoryPlan:
    """The memory of a job.

    Args:
        fit: whether it has what the script needs.
        required: bytes on each GPU.
        batch_size: of the data loader on each GPU; None if it is not known.
        largest_batch: the largest that is sure to fit on each GPU; None if none does, or it is not known.
        alternative: of the service's instance types on which it is sure to fit, the one on which it costs least; None if there
            is none.
        certain: whether all arguments of the script are known, none only by default.
        findings: what is wrong with how the script trains.
    """

    gpu: str
    fit: FitResult
    required: Interval
    batch_size: int | None
    largest_batch: int | None
    alternative: str | None
    usd_per_hour: float | None
    certain: bool
    command: str
    findings: tuple[Note, ...] = ()


class MemoryPlans:
    """Plans the jobs of a project, and traces no script twice with the same arguments.

    Attributes:
        tried: jobs whose memory was asked for.
    """

    def __init__(self) -> None:
        self.tried: list[JobDefinition] = []
        self._plans: dict[JobDefinition, MemoryPlan | NotPlanned] = {}
        self._traces: dict[tuple[object, ...], TracedSizes | NotPlanned] = {}

    def plan(
        self, job: JobDefinition, instance: Instance, catalogue: Catalogue, region: str, options: TraceOptions
    ) -> MemoryPlan:
        """What a job needs.

        Args:
            region: whose prices count.

        Raises:
            NotPlanned: the script cannot be traced, or its arguments are not known.
        """
        if job not in self._plans:
            self.tried.append(job)
            try:
                self._plans[job] = self._plan(job, instance, catalogue, region, options)
            except NotPlanned as error:
                self._plans[job] = error
        found = self._plans[job]
        if isinstance(found, NotPlanned):
            raise found
        return found

    def _plan(
        self, job: JobDefinition, instance: Instance, catalogue: Catalogue, region: str, options: TraceOptions
    ) -> MemoryPlan:
        from gpuproof.planning.recommendation import Conditions
        from gpuproof.planning.script_plan import make_plan, on_instance

        gpu = catalogue.gpu(instance.gpu_model) if instance.gpu_model is not None else None
        if gpu is None or gpu.compute_capability is None:
            raise NotPlanned(f"its instance type {instance.name} has no GPU with CUDA.")
        request = _request(job, instance, gpu, options)
        traced = self._trace(job, request, options)
        service = "sagemaker" if instance.name.startswith("ml.") else "ec2"
        conditions = Conditions(region, service, instance.gpu_count or 1)
        plan = make_plan(catalogue, traced, conditions)
        here = on_instance(catalogue, plan, instance)
        assert here is not None
        same = next(
            (
                row
                for row in plan.gpus
                if (row.candidate.gpu.name, row.candidate.fraction) == (gpu.name, instance.fraction)
            ),
            None,
        )
        best = plan.recommendation.offer.priced if plan.recommendation is not None else None
        return MemoryPlan(
            gpu.name,
            here.fit,
            here.memory.required,
            traced.trace.input.samples or None,
            same.largest_batch or None if same is not None else None,
            None if best is None else best.instance.name,
            None if best is None else best.price.usd_per_hour,
            _is_certain(job.hyperparameters) and _is_certain(_words(job)),
            _command(job, request, gpu),
            tuple(traced.trace.findings),
        )

    def _trace(self, job: JobDefinition, request: TraceRequest, options: TraceOptions) -> TracedSizes:
        from gpuproof.planning.tracing import NotTraceable, trace_two_batch_sizes

        key = (
            request.script,
            request.folder,
            request.arguments,
            request.gpus,
            request.gpu,
            tuple(sorted(request.contract.channels.items())),
        )
        if key not in self._traces:
            try:
                self._traces[key] = trace_two_batch_sizes(request)
            except NotTraceable as error:
                failure = error.failure
                place = f"{Path(failure.file).name}, line {failure.line}: " if failure.file else ""
                self._traces[key] = NotPlanned(
                    f"{place}{failure.message}", _remedy(job, options, failure.remedy)
                )
        found = self._traces[key]
        if isinstance(found, NotPlanned):
            raise found
        return found


def _request(job: JobDefinition, instance: Instance, gpu: Gpu, options: TraceOptions) -> TraceRequest:
    from gpuproof.agent.contract import hyperparameter_arguments
    from gpuproof.planning.contract import Contract
    from gpuproof.planning.tracing import TraceRequest

    assert job.script is not None
    path = job.script.unit.absolute
    if not path.is_file():
        raise NotPlanned("the script is in a notebook and not in a file.", "Run the cell that writes it.")
    hyperparameters = _hyperparameters(job.hyperparameters)
    words = hyperparameter_arguments(hyperparameters)
    channels = {**_folders(job), **dict(options.inputs)}
    return TraceRequest(
        path,
        (*words, *_arguments(job)),
        options.python,
        timeout=options.timeout,
        gpu=gpu,
        gpus=instance.gpu_count or 1,
        folder=_folder(path, job.entry_point.text),
        contract=Contract(channels, hyperparameters),
    )


def _command(job: JobDefinition, request: TraceRequest, gpu: Gpu) -> str:
    gpus = ["--gpus", str(request.gpus)] if request.gpus > 1 else []
    if job.source == "gpuproof":
        words = [job.span.unit.path, job.api.removeprefix("job "), "--fit", gpu.name]
    else:
        own = ["--", *request.arguments] if request.arguments else []
        assert job.script is not None
        words = [job.script.unit.path, "--fit", gpu.name, *gpus, *own]
    return shlex.join(["gpuproof", "plan", *words])


def _folder(script: Path, entry_point: str | None) -> Path:
    """The source folder of a job, in which its script runs: that above the parts of the entry point."""
    parts = len(Path(entry_point).parts) if entry_point and not Path(entry_point).is_absolute() else 1
    return script.parents[min(parts, len(script.parents)) - 1]


def _hyperparameters(value: Value) -> dict[str, Any]:
    if value.is_absent:
        return {}
    if value.entries is None or not value.entries.complete:
        raise NotPlanned("its hyperparameters are only known when the job is started.")
    unknown = sorted(str(name) for name, part in value.parts.items() if len(part.options) != 1)
    if unknown:
        raise NotPlanned(f"its hyperparameter {unknown[0]} is only known when the job is started.")
    return {str(name): part.plain() for name, part in value.parts.items()}


def _words(job: JobDefinition) -> Value:
    """The command line that a job adds to the hyperparameters; only those of gpuproof.yaml can."""
    return job.container_arguments if job.source == "gpuproof" else ABSENT


def _arguments(job: JobDefinition) -> list[str]:
    words = _words(job)
    if words.is_absent:
        return []
    if words.items is None or any(len(item.options) != 1 for item in words.items):
        raise NotPlanned("its arguments are only known when the job is started.")
    return [str(item.value) for item in words.items]


def _is_certain(value: Value) -> bool:
    if value.entries is not None:
        return all(_is_certain(part) for part in value.parts.values())
    return value.is_absent or value.is_known


def _folders(job: JobDefinition) -> Mapping[str, str]:
    """The channels whose data is in folders of this machine."""
    base = job.span.unit.absolute.parent
    places = {name: value.text for name, value in job.channels.items()}
    return {
        name: str(base / place.removeprefix("file://"))
        for name, place in places.items()
        if place is not None and (base / place.removeprefix("file://")).exists()
    }


def _remedy(job: JobDefinition, options: TraceOptions, own: str | None) -> str | None:
    """Channels without data may be why a script failed."""
    given = {*_folders(job), *dict(options.inputs)}
    missing = sorted(name for name in job.channels if name not in given)
    if not missing:
        return own
    names = " ".join(f"--input {name}=FOLDER" for name in missing)
    return f"If it fails for lack of data: {names} names folders with a few samples."
