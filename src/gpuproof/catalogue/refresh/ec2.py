"""Reads from EC2: types with GPUs, where they are offered, spot prices."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

from gpuproof.catalogue.csv_rows import Row
from gpuproof.catalogue.model import Gpu
from gpuproof.catalogue.search import matching_gpus

SOURCE = "aws-api"
GIB = 2**30
EFA_GBPS = 1000
"""From this rate on, the described network performance is sustained."""
GPU_FAMILIES: Sequence[Mapping[str, Any]] = ({"Name": "instance-type", "Values": ["g*", "p*"]},)
"""The names of all GPU families begin with these letters; other families that do so are dropped afterwards."""


def enabled_regions(client: Any) -> list[str]:
    """Regions that the account may use (DescribeRegions)."""
    return sorted(region["RegionName"] for region in client.describe_regions(AllRegions=False)["Regions"])


def instance_rows(client: Any, gpus: Mapping[str, Gpu], as_of: str) -> list[Row]:
    """Types with an NVIDIA or AMD GPU (DescribeInstanceTypes), as rows of the table of instances."""
    pages = client.get_paginator("describe_instance_types").paginate(Filters=list(GPU_FAMILIES))
    described = (instance_type for page in pages for instance_type in page["InstanceTypes"])
    return [row for instance_type in described if (row := _instance_row(instance_type, gpus, as_of))]


def offering_rows(client: Any, region: str, types: Iterable[str], as_of: str) -> list[Row]:
    """Zone ids where the types are offered (DescribeInstanceTypeOfferings)."""
    known = set(types)
    paginator = client.get_paginator("describe_instance_type_offerings")
    zones: dict[str, set[str]] = {}
    for page in paginator.paginate(LocationType="availability-zone-id"):
        for offering in page["InstanceTypeOfferings"]:
            if offering["InstanceType"] in known:
                zones.setdefault(offering["InstanceType"], set()).add(offering["Location"])
    return [
        {
            "instance_type": name,
            "region": region,
            "az_ids": " ".join(sorted(ids)),
            "source": SOURCE,
            "as_of": as_of,
        }
        for name, ids in sorted(zones.items())
    ]


def spot_rows(client: Any, region: str, types: Iterable[str], now: datetime, as_of: str) -> list[Row]:
    """Current spot prices (DescribeSpotPriceHistory), the lowest and the highest among the zones."""
    # All types are read: EC2 rejects a request that names a type which is unknown in the region.
    paginator = client.get_paginator("describe_spot_price_history")
    pages = paginator.paginate(StartTime=now, ProductDescriptions=["Linux/UNIX"])
    known = set(types)
    newest: dict[tuple[str, str], tuple[datetime, float]] = {}
    for page in pages:
        for spot_price in page["SpotPriceHistory"]:
            if spot_price["InstanceType"] not in known:
                continue
            key = (spot_price["InstanceType"], spot_price["AvailabilityZone"])
            reading = (spot_price["Timestamp"], float(spot_price["SpotPrice"]))
            newest[key] = max(reading, newest.get(key, reading))
    by_type: dict[str, list[float]] = {}
    for (name, _), (_, price) in newest.items():
        by_type.setdefault(name, []).append(price)
    return [
        price_row("ec2", "compute", name, region, "spot", min(prices), as_of, most=max(prices))
        for name, prices in sorted(by_type.items())
    ]


def price_row(
    service: str,
    use: str,
    name: str,
    region: str,
    market: str,
    usd: float,
    as_of: str,
    most: float | None = None,
) -> Row:
    """A row of the price table, as observed from the API."""
    return {
        "service": service,
        "use": use,
        "instance_type": name,
        "region": region,
        "market": market,
        "usd_per_hour": f"{usd:g}" if usd < 1e5 else str(usd),
        "usd_per_hour_max": "" if most is None else f"{most:g}",
        "kind": "observed",
        "confidence": "high",
        "source": SOURCE,
        "as_of": as_of,
    }


def _instance_row(one: Mapping[str, Any], gpus: Mapping[str, Gpu], as_of: str) -> Row | None:
    described = one.get("GpuInfo", {}).get("Gpus", [])
    if not described or described[0].get("Manufacturer") not in ("NVIDIA", "AMD"):
        return None
    gpu = described[0]
    memory_mib = int(gpu["MemoryInfo"]["SizeInMiB"])
    network = one.get("NetworkInfo", {})
    words = network.get("NetworkPerformance", "")
    peak = _gigabits(words)
    baseline = sum(card.get("BaselineBandwidthInGbps", 0.0) for card in network.get("NetworkCards", ()))
    if peak is not None and peak >= EFA_GBPS and not words.startswith("Up to"):
        baseline = peak  # the cards of p6-b200 report half of what they sustain
    return {
        "instance_type": one["InstanceType"],
        "status": "offered",
        "gpu": _model(gpu["Name"], memory_mib, gpus),
        # A fractional GPU has a Count of 0; programs see the logical one.
        "gpu_count": str(gpu.get("LogicalGpuCount") or gpu["Count"]),
        "gpu_fraction": f"{gpu.get('GpuPartitionSize', 1.0):g}",
        "gpu_memory_mib": str(memory_mib),
        "vcpus": str(one["VCpuInfo"]["DefaultVCpus"]),
        "memory_mib": str(one["MemoryInfo"]["SizeInMiB"]),
        "arch": one["ProcessorInfo"]["SupportedArchitectures"][-1],
        "network": words,
        "network_gbps": "" if peak is None else f"{peak:g}",
        "network_baseline_gbps": f"{min(baseline, peak or baseline):g}" if baseline else "",
        "efa_interfaces": str(network.get("EfaInfo", {}).get("MaximumEfaInterfaces", 0)),
        "local_disk_gb": str(one.get("InstanceStorageInfo", {}).get("TotalSizeInGB", 0)),
        "usage": " ".join(sorted(one.get("SupportedUsageClasses", ()))),
        "retires_on": "",
        "last_seen": "",
        "gone_by": "",
        "note": "",
        "source": SOURCE,
        "as_of": as_of,
    }


def _model(api_name: str, memory_mib: int, gpus: Mapping[str, Gpu]) -> str:
    # The API reports A100 and V100 for both memory sizes of each.
    same_name = matching_gpus((api_name,), gpus.values())
    if not same_name:
        return re.sub(r"\s+", "-", api_name.strip())
    return min(same_name, key=lambda key: abs(gpus[key].memory_gb * GIB - memory_mib * 2**20))


def _gigabits(words: str) -> float | None:
    match = re.fullmatch(r"(?:Up to )?(?:(\d+)x )?([\d.]+) Gigabit", words)
    return int(match[1] or 1) * float(match[2]) if match else None


def merged(pages: Iterable[Sequence[Row]]) -> Iterator[Row]:
    """Rows of several regions, each type once."""
    seen: dict[str, Row] = {}
    for rows in pages:
        seen.update({row["instance_type"]: row for row in rows})
    yield from (seen[name] for name in sorted(seen))
