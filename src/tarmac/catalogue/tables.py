"""Reads the catalogue's CSV files into typed rows, each file only when a question needs it."""

import csv
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import cast

from tarmac.catalogue.model import MIB, Instance, Status

SHIPPED = Path(__file__).parent / "data"
"""The facts that came with this version of Tarmac."""

Row = dict[str, str]


class Tables:
    """Every table of the catalogue, read at first use.

    Args:
        shipped: the folder of CSV files.
    """

    def __init__(self, shipped: Path = SHIPPED) -> None:
        self._shipped = shipped

    @cached_property
    def gpu_instances(self) -> dict[str, Instance]:
        """EC2 types with GPUs, by type."""
        return {row["instance_type"]: _gpu_instance(row) for row in self._rows("instances")}

    @cached_property
    def other_instances(self) -> dict[str, Instance]:
        """EC2 types without an NVIDIA or AMD GPU, by type."""
        return {row["instance_type"]: _other_instance(row) for row in self._rows("other_types")}

    def _rows(self, table: str) -> Iterator[Row]:
        with (self._shipped / f"{table}.csv").open(newline="", encoding="utf-8") as file:
            yield from csv.DictReader(file)


def _gpu_instance(row: Row) -> Instance:
    return Instance(
        name=row["instance_type"],
        ec2_type=row["instance_type"],
        status=cast("Status", row["status"]),
        gpu_model=row["gpu"],
        gpu_count=int(row["gpu_count"]),
        fraction=float(row["gpu_fraction"]),
        gpu_memory=int(row["gpu_memory_mib"] or 0) * MIB,
        accelerator="gpu",
        vcpus=_int(row["vcpus"]),
        memory=_mib(row["memory_mib"]),
        arch=row["arch"],
        network=row["network"],
        network_gbps=_float(row["network_gbps"]),
        network_baseline_gbps=_float(row["network_baseline_gbps"]),
        efa_interfaces=int(row["efa_interfaces"] or 0),
        local_disk=int(row["local_disk_gb"] or 0) * 10**9,
        usage=tuple(row["usage"].split()),
        retires_on=row["retires_on"] or None,
        last_seen=row["last_seen"] or None,
        gone_by=row["gone_by"] or None,
        note=row["note"],
        source=row["source"],
        as_of=row["as_of"],
    )


def _other_instance(row: Row) -> Instance:
    return Instance(
        name=row["instance_type"],
        ec2_type=row["instance_type"],
        status=cast("Status", row["status"]),
        gpu_model=None,
        gpu_count=0,
        fraction=1.0,
        gpu_memory=0,
        accelerator=row["accelerator"],
        vcpus=int(row["vcpus"]),
        memory=int(row["memory_mib"]) * MIB,
        arch=row["arch"],
        network="",
        network_gbps=None,
        network_baseline_gbps=None,
        efa_interfaces=0,
        local_disk=0,
        usage=("on-demand", "spot"),
        retires_on=None,
        last_seen=None,
        gone_by=None,
        note="",
        source=row["source"],
        as_of=row["as_of"],
    )


def _int(text: str) -> int | None:
    return int(text) if text else None


def _float(text: str) -> float | None:
    return float(text) if text else None


def _mib(text: str) -> int | None:
    return int(text) * MIB if text else None
