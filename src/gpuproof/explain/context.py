"""Where a log comes from: what is known of the machine, the job and the account, so that a cause can be made concrete."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from gpuproof.catalogue import Catalogue, JobKind

DEFAULT_REGION = "us-east-1"

_USES: dict[str, JobKind] = {
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
class Context:
    """What is known beside the log itself; everything may be unknown.

    Args:
        catalogue: the facts about GPUs, drivers, frameworks and AWS.
        place: what the facts are of, for a sentence: `this machine`, `ml.g5.xlarge`.
        driver: version of the NVIDIA driver there, such as `550.54.15`.
        gpus: names of the GPUs there; empty where there are none, `None` where that is not known.
        gpu_memory: bytes of the smallest of them.
        host_memory: bytes.
        shared_memory: bytes of `/dev/shm`.
        open_files: how many files a process may have open there.
        python: such as `3.11`.
        instance_type: `g5.xlarge`, `ml.g5.xlarge`.
        region: such as `eu-west-1`.
        region_asked: whether a person said so; else a region that the log names counts.
        use: what SageMaker was to run.
        frameworks: versions as `{"torch": "2.11"}`.
        gpu_expected: whether the job was to have a GPU.
        failed: whether what wrote the log is known to have failed.
    """

    catalogue: Catalogue = field(default_factory=Catalogue.load)
    place: str = ""
    driver: str | None = None
    gpus: tuple[str, ...] | None = None
    gpu_memory: int | None = None
    host_memory: int | None = None
    shared_memory: int | None = None
    open_files: int | None = None
    python: str | None = None
    instance_type: str | None = None
    region: str = DEFAULT_REGION
    region_asked: bool = False
    use: JobKind | None = None
    frameworks: Mapping[str, str] = field(default_factory=dict)
    gpu_expected: bool | None = None
    failed: bool | None = None

    @property
    def there(self) -> str:
        """The place in a sentence."""
        return self.place or "the machine of this log"

    def with_log(self, facts: Mapping[str, str]) -> Context:
        """With what the log itself says, which is nearer to the truth than this machine."""
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
            region=known.region if known.region_asked else facts.get("region", known.region),
            use=known.use or _USES.get(facts.get("operation", "")),
            python=facts.get("python", known.python),
            frameworks={**known.frameworks, **named},
            gpu_expected=True if known.gpu_expected is None and known.gpus else known.gpu_expected,
        )

    def on_instance(self, name: str) -> Context:
        """As it is on an instance type; one that the catalogue does not know changes the name alone."""
        instance = self.catalogue.instance(name)
        if instance is None:
            return replace(self, instance_type=name)
        return replace(
            self,
            place=name,
            instance_type=name,
            driver=None,
            gpus=(instance.gpu_model or "GPU",) * instance.gpu_count,
            gpu_memory=instance.gpu_memory or None,
            host_memory=instance.memory,
            shared_memory=None,
            open_files=None,
            python=None,
            gpu_expected=instance.gpu_count > 0 if self.gpu_expected is None else self.gpu_expected,
        )
