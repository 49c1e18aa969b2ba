"""The catalogue's rows, typed. Sizes are in bytes, rates in gigabits per second, prices in USD per hour."""

from dataclasses import dataclass
from typing import Literal

Status = Literal["offered", "legacy", "retired", "capacity-block"]
"""`legacy` can still be had but is announced to end; `capacity-block` is sold by reservation only."""

MIB = 1024**2


@dataclass(frozen=True, slots=True)
class Instance:
    """One instance type, under the name it was asked by.

    Attributes:
        name: `g5.xlarge` or `ml.g5.xlarge`, as asked.
        ec2_type: the type without SageMaker's `ml.`.
        status: whether it can be had; a price or an API's enumeration says nothing about that.
        gpu_model: key into the GPU table (`A10G`, `A100-40GB`), None without a GPU.
        gpu_count: GPUs that a program sees; a g6f type shows one, although it is a slice.
        fraction: share of a physical GPU that each of them is: 1.0, or 0.125 to 0.5 on g6f and gr6f.
        gpu_memory: bytes per GPU as EC2 reports them; 0 without a GPU.
        accelerator: `gpu`, `none`, or another kind (`inferentia`, `trainium`, `gaudi`, ...).
        vcpus: None where no source says.
        memory: bytes of host memory; None where no source says.
        arch: `x86_64` or `arm64`.
        network: EC2's own words, such as `Up to 25 Gigabit`.
        network_gbps: the peak that those words name.
        network_baseline_gbps: what is sustained.
        efa_interfaces: Elastic Fabric Adapter interfaces at most; 0 without EFA.
        local_disk: bytes of instance store; 0 without.
        usage: `on-demand`, `spot`, `capacity-block`.
        retires_on: the end that AWS announced, ISO date.
        last_seen, gone_by: the type was in the API on the first date and no longer on the second.
        note: what else one should know.
        source: key into the source table.
        as_of: ISO date of the reading.
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
        """Whether it was asked for by its SageMaker name."""
        return self.name.startswith("ml.")
