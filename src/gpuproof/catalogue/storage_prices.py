"""What volumes cost: EBS volumes, and the storage of SageMaker's notebook instances and training jobs."""

from collections.abc import Iterable, Mapping
from typing import Literal, NamedTuple

from gpuproof.catalogue.csv_rows import Row
from gpuproof.catalogue.model import JobKind, ServiceName
from gpuproof.catalogue.prices import DEFAULT_REGION

Unit = Literal["gb", "iops", "mibps"]
"""What a price is for: a GiB, a provisioned operation per second, a provisioned MiB per second."""

HOURS_PER_MONTH = 730.0
"""As AWS counts for prices by month: 8,760 h a year."""

EBS: Literal["volume"] = "volume"
"""The use of EBS volumes; on SageMaker, it is the job kind."""

SAGEMAKER_STORAGE = "ssd"
"""The volume type of storage on SageMaker, which chooses the generation itself."""

_LIKE_SAGEMAKER = "gp2"
"""The volume type whose price SageMaker's storage follows: 1.4 times as much, in each of the four regions that were read."""

_WITHOUT_USD = ("cn-", "eusc-")
"""Beginnings of the regions of partitions that AWS bills in another currency."""


class StoragePrice(NamedTuple):
    """The price of one unit of storage for a month in USD.

    Attributes:
        service: `ec2` or `sagemaker`.
        use: `volume` on EC2, a job kind on SageMaker.
        volume_type: such as `gp3`; `ssd` on SageMaker.
        unit: what is billed.
        above: the price is for units above this number: 3,000 IOPS of a gp3 volume are included.
    """

    service: str
    use: str
    volume_type: str
    unit: str
    above: int
    region: str
    usd_per_month: float
    kind: str
    confidence: str
    source: str
    as_of: str


class Volume(NamedTuple):
    """A volume.

    Attributes:
        volume_type: such as `gp3`; ignored on SageMaker.
        size: GiB.
        iops: operations per second that it has; 0 for what its type includes.
        throughput: MiB per second that it has; 0 for what its type includes.
        use: the job kind on SageMaker; None for an EBS volume.
    """

    volume_type: str
    size: float
    iops: int = 0
    throughput: int = 0
    use: JobKind | None = None

    @property
    def service(self) -> ServiceName:
        """The service that bills it."""
        return "ec2" if self.use is None else "sagemaker"


class VolumePrice(NamedTuple):
    """What a volume costs.

    Attributes:
        usd_per_hour: of the whole volume.
        is_derived: whether a price in it was derived from that of another region or service.
    """

    usd_per_hour: float
    is_derived: bool


Tiers = tuple[StoragePrice, ...]
Key = tuple[str, str, str, str, str]
"""Service, use, volume type, unit and region of prices."""


def group_prices(rows: Iterable[StoragePrice]) -> dict[Key, Tiers]:
    """Groups the prices of a unit, which differ by the number of units, lowest number first."""
    found: dict[Key, list[StoragePrice]] = {}
    for row in rows:
        found.setdefault((row.service, row.use, row.volume_type, row.unit, row.region), []).append(row)
    return {key: tuple(sorted(tiers, key=lambda tier: tier.above)) for key, tiers in found.items()}


def volume_price(prices: Mapping[Key, Tiers], volume: Volume, region: str) -> VolumePrice | None:
    """Returns the price of a volume; None for an unknown type, and in regions that are not billed in USD.

    Where a region has no price of its own, that of us-east-1 counts, and is marked as derived: of IOPS and throughput in the
    ratio of the regions' prices of the size, which is exact for gp3. SageMaker's storage without a price costs as many times
    the price of gp2 as in us-east-1.
    """
    if region.startswith(_WITHOUT_USD):
        return None
    amounts: tuple[tuple[Unit, float], ...] = (
        ("gb", volume.size),
        ("iops", volume.iops),
        ("mibps", volume.throughput),
    )
    monthly, is_derived = 0.0, False
    for unit, amount in amounts:
        found = _unit_price(prices, volume, unit, region)
        if found is None and unit == "gb":
            return None
        if found is None:
            continue  # the type has no such price
        tiers, factor = found
        cost = factor * _cost(tiers, amount)
        monthly += cost
        is_derived |= cost > 0 and any(tier.region != region or tier.kind == "derived" for tier in tiers)
    return VolumePrice(monthly / HOURS_PER_MONTH, is_derived)


def storage_price(row: Row) -> StoragePrice:
    """Reads a row of the table."""
    return StoragePrice(
        service=row["service"],
        use=row["use"],
        volume_type=row["volume_type"],
        unit=row["unit"],
        above=int(row["above"]),
        region=row["region"],
        usd_per_month=float(row["usd_per_month"]),
        kind=row["kind"],
        confidence=row["confidence"],
        source=row["source"],
        as_of=row["as_of"],
    )


def _unit_price(
    prices: Mapping[Key, Tiers], volume: Volume, unit: Unit, region: str
) -> tuple[Tiers, float] | None:
    """The prices of a unit, and the factor by which they are multiplied; None if the volume's type has none."""
    service, use = volume.service, volume.use or EBS
    kind = volume.volume_type if volume.use is None else SAGEMAKER_STORAGE
    own = prices.get((service, use, kind, unit, region))
    if own is not None:
        return own, 1.0
    known = prices.get((service, use, kind, unit, DEFAULT_REGION))
    if known is None:
        return None
    # Another price of both regions shows how they differ.
    other = ("ec2", EBS, kind if volume.use is None else _LIKE_SAGEMAKER, "gb")
    here, there = prices.get((*other, region)), prices.get((*other, DEFAULT_REGION))
    factor = here[0].usd_per_month / there[0].usd_per_month if here and there else 1.0
    return known, factor


def _cost(tiers: Tiers, amount: float) -> float:
    """The price of an amount: that of each tier for the part that is within it."""
    ends = [*(tier.above for tier in tiers[1:]), float("inf")]
    return sum(
        max(0.0, min(amount, end) - tier.above) * tier.usd_per_month
        for tier, end in zip(tiers, ends, strict=True)
    )
