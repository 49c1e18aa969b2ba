"""An EC2 instance type to try, with its AMI, its zones and the GPUs that are expected to work."""

from __future__ import annotations

from dataclasses import dataclass, field

from gpuproof.backends.agent_job.expected_gpus import ExpectedGpus
from gpuproof.backends.agent_job.launch_settings import LaunchSettings
from gpuproof.backends.offer import Offer
from gpuproof.catalogue.model import Ami, ImageRow, Instance, Price
from gpuproof.catalogue.prices import mark


@dataclass(frozen=True)
class DriverNeed:
    """The oldest NVIDIA driver on which a framework's version can use a GPU.

    Args:
        driver: such as `525.60.13`.
        because: what needs it, for the user: `torch 2.9 (CUDA 12.6)`.
    """

    driver: str
    because: str


@dataclass(frozen=True)
class OwnEnvironment:
    """A Python environment that uv makes on the instance.

    Args:
        python: the version of Python, such as `3.11`.
        packages: requirements, such as `torch==2.3.*`.
    """

    python: str
    packages: tuple[str, ...]


@dataclass(frozen=True)
class ContainerImage:
    """The container image that a job runs in.

    Args:
        uri: its name, as Docker takes it.
        because: the reason for the choice, for the user.
        row: the catalogue's facts; None if it is none of AWS's images.
        cuda: its version of CUDA, such as `12.8`; empty if it has none, or if that is unknown.
    """

    uri: str
    because: str
    row: ImageRow | None = None
    cuda: str = ""
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class ChosenAmi:
    """A machine image.

    Args:
        id: such as `ami-0123456789abcdef0`.
        name: as DescribeImages returns it; empty if the user may not read it.
        because: the reason for the choice, for the user.
        arch: `x86_64` or `arm64`.
        row: the catalogue's facts; None for an image that the job names.
        pythons: folders with a `python3` for the script, in the order in which they are tried.
        root_device: name of the root volume's device.
        snapshot_gb: size of the root snapshot in GiB, below which EC2 rejects the volume; 0 if unknown.
        other_devices: names of the devices of further volumes that the image has.
        driver: the oldest NVIDIA driver on which the job's framework can use a GPU; None if unknown.
        environment: for the script; None if it runs in the image's own.
    """

    id: str
    name: str
    because: str
    arch: str
    row: Ami | None = None
    pythons: tuple[str, ...] = ()
    root_device: str = "/dev/sda1"
    snapshot_gb: int = 0
    other_devices: tuple[str, ...] = ()
    note: str | None = None
    driver: DriverNeed | None = None
    environment: OwnEnvironment | None = None


@dataclass(frozen=True)
class Zone:
    """An availability zone to try.

    Args:
        name: such as `us-east-1a`; empty if EC2 chooses.
        subnet: id of a subnet in it; empty if the account's default subnet is used.
    """

    name: str
    subnet: str
    vpc: str


@dataclass(frozen=True)
class InstanceProfile:
    """The instance profile that gives the instance its role.

    Args:
        arn: its ARN; empty if it was not looked up.
        because: how it was found, if it was not named.
        note: a warning that it could not be checked.
    """

    name: str
    arn: str = ""
    because: str | None = None
    note: str | None = None

    @property
    def specification(self) -> dict[str, str]:
        """The profile as RunInstances takes it."""
        return {"Arn": self.arn} if self.arn else {"Name": self.name}


@dataclass(frozen=True)
class EC2Target:
    """An instance type to try, with everything that depends on it.

    Args:
        name: such as `g5.xlarge`.
        instance: the catalogue's facts; None for an unknown type.
        price: the on-demand price; None if unknown.
        spot_price: the lowest current spot price of its zones in USD per hour; None if unknown or on demand.
        zones: availability zones in the order in which they are tried; those that do not offer the type are left out.
        expected: the GPUs that must work on each host.
        container: the image of the container that the job runs in; None if it runs in the AMI's environment.
        volume_gb: size of the root volume in GiB.
        local_disk: whether the type has local NVMe disks.
    """

    name: str
    region: str
    instance: Instance | None
    price: Price | None
    spot_price: float | None
    ami: ChosenAmi
    zones: tuple[Zone, ...]
    expected: ExpectedGpus
    container: ContainerImage | None = None
    launch: LaunchSettings = field(default_factory=LaunchSettings)
    volume_gb: int = 0
    local_disk: bool = False

    @property
    def gpus(self) -> int:
        """Number of GPUs of each host; 0 if unknown."""
        return self.instance.gpu_count if self.instance is not None else 0

    @property
    def usd_per_hour(self) -> float | None:
        """The price of one instance as it is launched, in USD per hour; None if unknown."""
        if self.spot_price is not None:
            return self.spot_price
        return self.price.usd_per_hour if self.price is not None else None

    def offer(self, hosts: int, *, spot: bool) -> Offer:
        """What a number of hosts costs; the on-demand price is the upper bound of an unknown spot price."""
        price = self.usd_per_hour
        return Offer(
            instance_type=self.name,
            usd_per_hour=None if price is None else price * hosts,
            spot=spot,
            is_limit=spot and self.spot_price is None,
            is_derived=self.spot_price is None and bool(mark(self.price)),
        )
