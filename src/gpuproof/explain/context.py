"""What is known about the machine, the job and the account that a log comes from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from gpuproof.catalogue import Catalogue, JobKind

DEFAULT_REGION = "us-east-1"
_CHANNEL = "SM_CHANNEL_"

_JOB_KINDS: dict[str, JobKind] = {
    "CreateTrainingJob": "training",
    "CreateHyperParameterTuningJob": "training",
    "CreateProcessingJob": "processing",
    "CreateEndpoint": "endpoint",
    "CreateEndpointConfig": "endpoint",
    "CreateModel": "endpoint",
    "CreateTransformJob": "transform",
    "CreateNotebookInstance": "notebook",
    "CreateApp": "studio",
    "CreateSpace": "studio",
    "CreateCluster": "cluster",
}


@dataclass(frozen=True)
class JobFacts:
    """What the user submitted, so that no advice repeats it.

    Args:
        channels: names of the input channels.
        environment: variables that the job sets.
        arguments: of the script, without those that its hyperparameters become.
        hyperparameters: names of the hyperparameters.
        launcher: `torchrun`, `mpi`, …; `none` if the script is started as one process; `None` if unknown.
        entry_point: the script's path in its folder.
        variables_read: names of `SM_…` variables that the submitted source mentions; `None` if the source is unknown.
        requirements: packages that the submitted `requirements.txt` names.
        files: names of files and folders at the top of the submitted source.
    """

    channels: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    arguments: tuple[str, ...] = ()
    hyperparameters: tuple[str, ...] = ()
    launcher: str | None = None
    entry_point: str = "the script"
    variables_read: tuple[str, ...] | None = None
    requirements: tuple[str, ...] = ()
    files: tuple[str, ...] = ()

    @property
    def missing_channels(self) -> tuple[str, ...]:
        """Channels that the source reads and the job does not have."""
        read = (
            name.removeprefix(_CHANNEL) for name in self.variables_read or () if name.startswith(_CHANNEL)
        )
        have = {channel_variable(name) for name in self.channels}
        return tuple(name.lower() for name in read if _CHANNEL + name not in have)

    @property
    def flags(self) -> tuple[str, ...]:
        """Names of the options that the script is called with, such as `--batch-size`."""
        given = (argument.partition("=")[0] for argument in self.arguments if argument.startswith("--"))
        return (*given, *(f"--{name}" for name in self.hyperparameters))


@dataclass(frozen=True)
class Context:
    """Everything known about the origin of a log apart from its text; every value may be unknown.

    Args:
        machine: label of the machine in sentences: `this machine`, `ml.g5.xlarge`.
        driver: version of its NVIDIA driver, such as `550.54.15`.
        gpus: names of its GPUs; empty if it has none, `None` if unknown.
        gpu_memory: bytes of the smallest GPU.
        host_memory: bytes of host memory.
        shared_memory: bytes of `/dev/shm`.
        open_files: limit of open files per process.
        address_space: limit of the address space per process, in bytes (`ulimit -v`); `None` if there is none.
        python: version such as `3.11`.
        instance_type: `g5.xlarge`, `ml.g5.xlarge`.
        region: AWS region such as `eu-west-1`.
        region_is_explicit: whether the user passed the region; if not, a region in the log takes precedence.
        frameworks: versions as `{"torch": "2.11"}`.
        gpu_expected: whether the job should use a GPU.
        failed: whether the program that wrote the log failed.
        hosts: number of hosts of the job.
        job: what was submitted, if the log is that of a run; `None` if unknown.
    """

    catalogue: Catalogue = field(default_factory=Catalogue.load)
    machine: str = "the machine of this log"
    driver: str | None = None
    gpus: tuple[str, ...] | None = None
    gpu_memory: int | None = None
    host_memory: int | None = None
    shared_memory: int | None = None
    open_files: int | None = None
    address_space: int | None = None
    python: str | None = None
    instance_type: str | None = None
    region: str = DEFAULT_REGION
    region_is_explicit: bool = False
    job_kind: JobKind | None = None
    frameworks: Mapping[str, str] = field(default_factory=dict)
    gpu_expected: bool | None = None
    failed: bool | None = None
    hosts: int | None = None
    job: JobFacts | None = None

    @property
    def has_efa(self) -> bool | None:
        """Whether the instance type has Elastic Fabric Adapters, by the catalogue; `None` if that is unknown."""
        instance = self.catalogue.instance(self.instance_type) if self.instance_type else None
        return None if instance is None else instance.efa_interfaces > 0

    @property
    def expects_efa(self) -> bool:
        """Whether the hosts of the job should communicate over EFA; a job of one host needs none."""
        return bool(self.has_efa) and self.hosts != 1

    def with_log_facts(self, facts: Mapping[str, str]) -> Context:
        """Add facts from the log itself, which take precedence over those of this machine."""
        known = self
        if (instance_type := facts.get("instance_type")) and self.instance_type is None:
            known = known.on_instance(instance_type)
        if driver := facts.get("driver"):
            known = replace(known, driver=driver)
        if gpu := facts.get("gpu"):
            known = replace(
                known, gpus=(gpu,), gpu_memory=known.gpu_memory if gpu in (known.gpus or ()) else None
            )
        named = {name: facts[name] for name in ("torch", "tensorflow") if name in facts}
        return replace(
            known,
            region=known.region if known.region_is_explicit else facts.get("region", known.region),
            job_kind=known.job_kind or _JOB_KINDS.get(facts.get("operation", "")),
            python=facts.get("python", known.python),
            hosts=known.hosts or _hosts(facts, known),
            frameworks={**known.frameworks, **named},
            gpu_expected=True if known.gpu_expected is None and known.gpus else known.gpu_expected,
        )

    def on_instance(self, name: str) -> Context:
        """The context on an instance type; for a type missing from the catalogue only the name changes."""
        instance = self.catalogue.instance(name)
        if instance is None:
            return replace(self, instance_type=name)
        return replace(
            self,
            machine=name,
            instance_type=name,
            driver=None,
            gpus=(instance.gpu_model or "GPU",) * instance.gpu_count,
            gpu_memory=instance.gpu_memory or None,
            host_memory=instance.memory,
            shared_memory=None,
            open_files=None,
            address_space=None,
            python=None,
            gpu_expected=instance.gpu_count > 0 if self.gpu_expected is None else self.gpu_expected,
        )


def channel_variable(channel: str) -> str:
    """The environment variable with the folder of a channel: `SM_CHANNEL_TRAIN`."""
    return _CHANNEL + channel.upper()


def _hosts(facts: Mapping[str, str], context: Context) -> int | None:
    if facts.get("hosts", "").isdigit():
        return int(facts["hosts"])
    ranks, gpus = int(facts.get("ranks", 0)), len(context.gpus or ())
    return None if not ranks or not gpus else max(1, ranks // gpus)
