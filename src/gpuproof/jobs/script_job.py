"""A training job that consists of a script, its arguments and a launcher, as in `gpuproof run train.py -- --epochs 5`.

It has the attributes of a `TrainingJob` with default values, but needs no pydantic, whose import and validators take a
third of the time until such a script starts.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Union

from gpuproof.jobs.distribution.launchers import LAUNCHERS, NONE
from gpuproof.jobs.validators import check_entry_point, derive_job_name

if TYPE_CHECKING:
    from gpuproof.jobs.models.script_jobs import Job, TrainingJob
    from gpuproof.jobs.options import Overrides

_FLAGS = ("arguments", "distribution", "instance_count", "processes_per_host")
"""The flags of which such a job has the values."""


@dataclass(frozen=True)
class NoResources:
    """The defaults of `gpuproof.jobs.models.parts.Resources`: nothing is requested."""

    gpu: None = None
    gpu_memory: None = None
    memory: None = None
    cpus: None = None
    max_price: None = None
    region: None = None
    spot: Literal[False] = False


@dataclass(frozen=True)
class NoNotify:
    """The defaults of `gpuproof.jobs.models.monitoring.Notify`."""

    topic: None = None
    webhook: None = None
    cost: None = None

    @property
    def is_set(self) -> Literal[False]:
        """No notifications."""
        return False


@dataclass(frozen=True)
class NoSageMakerSettings:
    """The defaults of `gpuproof.jobs.models.sagemaker.SageMakerSettings`."""

    role: None = None
    bucket: None = None
    subnets: tuple[str, ...] = ()
    security_groups: tuple[str, ...] = ()
    volume_kms_key: None = None
    output_kms_key: None = None
    network_isolation: Literal[False] = False
    encrypt_traffic: Literal[False] = False
    keep_alive: None = None
    volume_size: None = None
    max_wait: None = None
    metrics: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class NoEC2Settings:
    """The defaults of `gpuproof.jobs.models.ec2.EC2Settings`."""

    instance_profile: None = None
    bucket: None = None
    subnets: tuple[str, ...] = ()
    security_groups: tuple[str, ...] = ()
    ami: None = None
    container: Literal[False] = False
    volume_size: None = None
    retry_spot: Literal[0] = 0
    rebalance: Literal["checkpoint"] = "checkpoint"
    regions: tuple[()] = ()


@dataclass(frozen=True)
class ScriptDistribution:
    """A `gpuproof.jobs.distribution.spec.Distribution` with the default value of every key except for these.

    Args:
        launcher: a key of `LAUNCHERS`.
        processes_per_host: processes on each host; by default one per GPU, or one without GPUs.
    """

    launcher: str
    processes_per_host: int | None = None
    max_restarts: int = field(default=0, init=False)
    mpi_options: str = field(default="", init=False)


@dataclass(frozen=True)
class ScriptJob:
    """A training job with the default value of every key except for these.

    Args:
        entry_point: the script's file name.
        source_dir: its folder, absolute.
        arguments: of the script.
        instance_count: number of hosts.
        distribution: the launcher.
    """

    entry_point: str
    source_dir: str
    arguments: tuple[str, ...] = ()
    instance_count: int = 1
    distribution: ScriptDistribution | None = None
    name: str = field(init=False)
    kind: Literal["training"] = field(default="training", init=False)
    include: tuple[str, ...] = field(default=(), init=False)
    respect_gitignore: Literal[True] = field(default=True, init=False)
    environment: Mapping[str, str] = field(default_factory=dict, init=False)
    framework: None = field(default=None, init=False)
    framework_version: None = field(default=None, init=False)
    image: None = field(default=None, init=False)
    instance_type: None = field(default=None, init=False)
    resources: NoResources = field(default_factory=NoResources, init=False)
    fallbacks: tuple[str, ...] = field(default=(), init=False)
    max_duration: None = field(default=None, init=False)
    stall_timeout: None = field(default=None, init=False)
    step_times: Literal[True] = field(default=True, init=False)
    sinks: tuple[()] = field(default=(), init=False)
    notify: NoNotify = field(default_factory=NoNotify, init=False)
    require_gpu: None = field(default=None, init=False)
    if_gpu_unused: None = field(default=None, init=False)
    tags: Mapping[str, str] = field(default_factory=dict, init=False)
    sagemaker: NoSageMakerSettings = field(default_factory=NoSageMakerSettings, init=False)
    ec2: NoEC2Settings = field(default_factory=NoEC2Settings, init=False)
    hyperparameters: Mapping[str, Any] = field(default_factory=dict, init=False)
    inputs: Mapping[str, str] = field(default_factory=dict, init=False)
    output: None = field(default=None, init=False)
    checkpoint: None = field(default=None, init=False)
    warnings: tuple[str, ...] = field(default=(), init=False)

    def __post_init__(self) -> None:
        """Derive the name."""
        object.__setattr__(self, "name", derive_job_name(self.entry_point))

    def model_dump(self) -> dict[str, Any]:
        """The keys and values, as of a pydantic model."""
        values = asdict(self)
        del values["warnings"]
        return values

    def expand(self) -> TrainingJob:
        """The same job as a `TrainingJob`."""
        from gpuproof.jobs.models.script_jobs import TrainingJob  # imports pydantic

        distribution: Any = None if self.distribution is None else asdict(self.distribution)
        return TrainingJob(
            entry_point=self.entry_point,
            source_dir=self.source_dir,
            arguments=self.arguments,
            instance_count=self.instance_count,
            distribution=distribution,
        )


if TYPE_CHECKING:
    AnyJob = Union[Job, ScriptJob]  # noqa: UP007 - `|` needs the classes at run time


def script_job(path: Path, changes: Overrides) -> ScriptJob | None:
    """The job of an existing Python script with a few flags; `None` if anything else is given or needs a closer look.

    Args:
        path: the script.
        changes: the flags.
    """
    given = {key for key, value in changes.items() if value not in (None, [], ())}
    if given.difference(_FLAGS) or path.suffix != ".py" or not path.is_file():
        return None
    script, count = path.absolute(), changes.get("instance_count", 1)
    try:
        check_entry_point(script.name)
        distribution = _distribution(changes, count)
    except ValueError:
        return None  # reading it as any other job explains what is wrong
    return ScriptJob(
        script.name, str(script.parent), tuple(changes.get("arguments") or ()), count, distribution
    )


def _distribution(changes: Overrides, hosts: Any) -> ScriptDistribution | None:
    launcher, processes = changes.get("distribution"), changes.get("processes_per_host")
    if any(
        not isinstance(number, int) or number < 1 for number in (hosts, 1 if processes is None else processes)
    ):
        raise ValueError
    if launcher is None and processes is None:
        return None
    kind = LAUNCHERS.get(launcher or NONE)
    if kind is None or (hosts > 1 and not kind.several_hosts):
        raise ValueError
    if processes is not None and "processes_per_host" not in kind.options:
        raise ValueError
    return ScriptDistribution(launcher or NONE, processes)


def expanded(job: AnyJob) -> Job:
    """A job as one of the models of `gpuproof.jobs.models.script_jobs`."""
    return job.expand() if isinstance(job, ScriptJob) else job
