"""Typed rows of the catalogue. Sizes are in bytes, rates in gigabits per second, prices in USD per hour.

Named tuples and not dataclasses: building the classes of this module at every start takes 2 ms instead of 18.
"""

from typing import Literal, NamedTuple

Status = Literal["offered", "legacy", "retired", "capacity-block"]
"""`legacy` is still offered, but AWS has announced its end; `capacity-block` is sold by reservation only."""

JobKind = Literal["training", "processing", "endpoint", "transform", "notebook", "studio", "cluster"]
"""Kinds of SageMaker workloads; each has its own instance types and quotas."""

HostService = Literal["endpoint", "transform", "training"]
"""The kinds of workloads whose host image a request can name."""

Market = Literal["on-demand", "spot"]
ServiceName = Literal["ec2", "sagemaker"]

MIB = 1024**2


class Instance(NamedTuple):
    """One instance type, by its EC2 or its SageMaker name.

    Attributes:
        name: `g5.xlarge` or `ml.g5.xlarge`, as queried.
        ec2_type: the type without SageMaker's `ml.`.
        status: whether it is available; a price or an API's enumeration does not show that.
        gpu_model: key into the GPU table (`A10G`, `A100-40GB`), None without a GPU.
        gpu_count: GPUs that a program sees; a g6f type shows one, although it is a slice.
        fraction: share of a physical GPU that each of them is: 1.0, or 0.125 to 0.5 on g6f and gr6f.
        gpu_memory: bytes per GPU as EC2 reports them; 0 without a GPU.
        accelerator: `gpu`, `none`, or another kind (`inferentia`, `trainium`, `gaudi`, ...).
        vcpus: None if unknown.
        memory: bytes of host memory; None if unknown.
        arch: `x86_64` or `arm64`.
        network: as EC2 describes it, such as `Up to 25 Gigabit`.
        network_gbps: the peak of that description.
        network_baseline_gbps: the sustained rate.
        efa_interfaces: maximum number of Elastic Fabric Adapter interfaces; 0 without EFA.
        local_disk: bytes of instance store; 0 without.
        usage: `on-demand`, `spot`, `capacity-block`.
        retires_on: the announced end of availability, ISO date.
        last_seen, gone_by: the type was in the API on the first date and no longer on the second.
        note: anything else worth knowing.
        source: key into the source table.
        as_of: ISO date on which the row was read.
    """

    name: str
    ec2_type: str
    status: Status
    gpu_model: str | None
    gpu_count: int
    fraction: float
    gpu_memory: int
    accelerator: str
    vcpus: int | None
    memory: int | None
    arch: str
    network: str
    network_gbps: float | None
    network_baseline_gbps: float | None
    efa_interfaces: int
    local_disk: int
    usage: tuple[str, ...]
    retires_on: str | None
    last_seen: str | None
    gone_by: str | None
    note: str
    source: str
    as_of: str

    @property
    def total_gpu_memory(self) -> int:
        """Bytes over all GPUs of the instance."""
        return self.gpu_count * self.gpu_memory

    @property
    def whole_gpus(self) -> float:
        """GPUs counted in physical ones: 0.125 for g6f.large, 8 for p5.48xlarge."""
        return self.gpu_count * self.fraction

    @property
    def family(self) -> str:
        """`g5` of `ml.g5.xlarge`."""
        return self.ec2_type.partition(".")[0]

    @property
    def on_sagemaker(self) -> bool:
        """Whether `name` is the SageMaker name."""
        return self.name.startswith("ml.")


class Gpu(NamedTuple):
    """One GPU model. Rates are dense peaks in 10^12 operations a second; None if the GPU has no such unit.

    Attributes:
        name: the key of the GPU table, such as `A10G` or `A100-80GB`.
        aliases: other names, including those that drivers report.
        vendor: `NVIDIA` or `AMD`.
        architecture: `Ampere`, `Hopper`, ...
        compute_capability: such as (8, 6); None without CUDA.
        memory_gb: from the datasheet; `Instance.gpu_memory` is what EC2 reports.
        bandwidth: memory bandwidth in 10^9 bytes a second.
        nvlink: 10^9 bytes a second to the other GPUs, 0 without NVLink.
        cuda_first, cuda_last: toolkits that support it; `cuda_last` is None if the newest does.
        driver_first, driver_last: Linux driver branches that support it; `driver_last` is None if the newest does.
        kernel_module: the flavour of NVIDIA's kernel module that supports it: `open`, `proprietary` or `either`.
        confidence: `high`, `medium` or `low`, for the whole row.
    """

    name: str
    aliases: tuple[str, ...]
    vendor: str
    architecture: str
    compute_capability: tuple[int, int] | None
    memory_gb: int
    memory_type: str
    bandwidth: float
    fp32_tflops: float | None
    tf32_tflops: float | None
    fp16_tflops: float | None
    bf16_tflops: float | None
    fp8_tflops: float | None
    fp4_tflops: float | None
    nvlink: float
    cuda_first: str | None
    cuda_last: str | None
    driver_first: int | None
    driver_last: int | None
    kernel_module: str
    note: str
    confidence: str
    source: str
    as_of: str


class Offering(NamedTuple):
    """One type in one region.

    Attributes:
        az_ids: zone ids such as `use1-az4`; zone names differ between accounts, ids do not.
    """

    instance_type: str
    region: str
    az_ids: tuple[str, ...]
    source: str
    as_of: str


class GridCarbon(NamedTuple):
    """The carbon intensity of the electricity grid of a region, averaged over a year.

    Attributes:
        grid: the subregion of the US grid, or the country.
        g_per_kwh: grams of CO2 equivalent for each kWh of electricity that was generated.
        licence: of the source.
    """

    region: str
    grid: str
    g_per_kwh: float
    year: int
    licence: str
    source: str
    as_of: str


class Price(NamedTuple):
    """The hourly price of one instance in USD. It does not imply that the type is available.

    Attributes:
        service: `ec2` or `sagemaker`.
        use: a job kind on SageMaker, `any` if the price applies to all of them, `compute` on EC2.
        usd_per_hour: for spot, the lowest among the zones.
        usd_per_hour_max: for spot, the highest among the zones, if known.
        kind: `observed`, or `derived` by the rule that the source names.
    """

    service: str
    use: str
    instance_type: str
    region: str
    market: str
    usd_per_hour: float
    usd_per_hour_max: float | None
    kind: str
    confidence: str
    source: str
    as_of: str


class SageMakerRatio(NamedTuple):
    """SageMaker's price divided by EC2's, for one family.

    Attributes:
        family: such as `g5`.
        size: the size that it applies to, such as `xlarge`; empty for all others.
        lowest, highest: of the observed ratios; None without an observation.
        observations: how many prices were compared; 0 for a ratio taken from similar families.
    """

    family: str
    size: str
    ratio: float
    lowest: float | None
    highest: float | None
    observations: int
    confidence: str
    source: str
    as_of: str


class Build(NamedTuple):
    """One binary of a framework, and the GPUs that it was compiled for.

    Attributes:
        framework: `tensorflow`, `torch` or `jax`.
        version: major and minor, such as `2.11`.
        variant: `default` is what pip installs on Linux; `cu126` and the like come from the project's own index.
        arch: of the host, `x86_64` or `arm64`.
        device: `cpu` for a build without CUDA.
        python: versions that it installs on.
        cuda, cudnn: versions that it was built with; empty if unknown.
        architectures: compiled kernels and PTX, such as (`sm_80`, `compute_90`).
        evidence: `architectures` is `read` from the build, `inferred` from the neighbouring versions, or `unread`.
    """

    framework: str
    version: str
    variant: str
    arch: str
    device: str
    python: str
    cuda: str
    cudnn: str
    architectures: tuple[str, ...]
    evidence: str
    keras: str
    note: str
    source: str
    as_of: str

    def __str__(self) -> str:
        variant = "" if self.variant == "default" else f"+{self.variant}"
        return f"{self.framework} {self.version}{variant}"


class CudaDriver(NamedTuple):
    """The Linux drivers that one CUDA toolkit requires.

    Attributes:
        cuda: such as `12.9`.
        update: 0 for the first release, 1 for Update 1.
        driver: the driver released with the toolkit; PTX of this toolkit needs it.
        minimum_driver: the oldest that runs binaries of this major version (minor version compatibility).
    """

    cuda: str
    update: int
    driver: str
    minimum_driver: str
    confidence: str
    source: str
    as_of: str


class ImageRow(NamedTuple):
    """One AWS Deep Learning Container.

    Attributes:
        job: `training`, `inference` or `base`.
        platform: `sagemaker` or `ec2`.
        cuda: empty for CPU images and if unknown.
        patched_until: ISO date; empty if unknown.
        status: `patched` or `ended` at the time of `as_of`, empty if unknown; an ended image stays in the registry.
        evidence: `listed` by AWS, or a tag `derived` in the way of the SageMaker SDK.
        confirmed: `yes` if the row was found in its source (`tools/check_image_sources.py`); no default is taken from others.
        library, library_version: on Hugging Face images, what they add to the framework: `transformers`, `tgi`, `vllm`.
    """

    repository: str
    framework: str
    version: str
    job: str
    device: str
    python: str
    cuda: str
    os: str
    arch: str
    platform: str
    tag: str
    released: str
    patched_until: str
    status: str
    evidence: str
    source: str
    as_of: str
    confirmed: str
    library: str = ""
    library_version: str = ""


class Registry(NamedTuple):
    """The ECR account of AWS's images in one region."""

    region: str
    account: str
    dns_suffix: str
    source: str
    as_of: str


class Ami(NamedTuple):
    """One series of AWS Deep Learning AMIs.

    Attributes:
        name_pattern: for `Filters=[{"Name": "name", ...}]`.
        framework, version: empty on base AMIs.
        kernel_module: `open` or `proprietary`.
        driver, cuda, cuda_versions: empty if not read.
        families: EC2 families in the release notes; empty if not read.
        ssm_parameter: its value is the id of the newest build; empty if none is known.
        ssm_evidence: `listed` or `inferred`.
        released: ISO date of the build that was read.
        status: `current`, or `ended`: AWS builds no newer ones. `driver` is then the newest branch of the line.
        python: path of a newer Python than the system's, if the release notes name one; empty otherwise.
    """

    name_pattern: str
    framework: str
    version: str
    os: str
    arch: str
    kernel_module: str
    driver: str
    cuda: str
    cuda_versions: tuple[str, ...]
    families: tuple[str, ...]
    ssm_parameter: str
    ssm_evidence: str
    released: str
    source: str
    as_of: str
    status: str
    python: str


class HostAmi(NamedTuple):
    """A host image of SageMaker and the driver in it.

    Attributes:
        service: `endpoint` (`InferenceAmiVersion`), `transform` (`TransformAmiVersion`), or `training`, which no
            request can name; its `driver` is the oldest branch that the source allows.
        version: as the API takes it; empty for the image that a family gets if the request names none.
        driver: major version of its NVIDIA driver.
        cuda: the newest CUDA that this driver runs without a compatibility library.
        default_for: EC2 families that get it if the request names no version.
    """

    service: HostService
    version: str
    driver: int
    cuda: str
    cuda_compat_mounted: bool
    default_for: tuple[str, ...]
    source: str
    as_of: str


class QuotaRow(NamedTuple):
    """One quota, or the pattern of its name (`{type}` stands for the instance type).

    Attributes:
        market: `on-demand`, `spot` or `warm-pool`.
        use: the job kind on SageMaker; empty on EC2.
        families: EC2 families that count against it; `standard` stands for the CPU families.
        instance_type: if the row is for one type.
        unit: `vCPU` or `instance`.
        default: in a new account; None if unknown.
    """

    service: str
    name: str
    code: str
    market: str
    use: str
    families: tuple[str, ...]
    instance_type: str
    unit: str
    default: float | None
    note: str
    source: str
    as_of: str


class QuotaLimit(NamedTuple):
    """The quota of one account in one region, as read by `gpuproof catalogue refresh`."""

    service: str
    name: str
    code: str
    region: str
    value: float
    as_of: str


class Source(NamedTuple):
    """A source of facts.

    Attributes:
        source: the key that rows name.
        what: what was read.
        read_on: ISO date.
        how: the method.
        confidence: `high`, `medium` or `low`.
    """

    source: str
    what: str
    read_on: str
    how: str
    confidence: str
