"""Lists notebook instances with what they cost and, for GPUproof's own, how long they have been idle."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from gpuproof.backends.aws import Aws
from gpuproof.backends.remote.s3_layout import notebook_results
from gpuproof.backends.sagemaker.notebooks.lifecycle_script import is_own_config
from gpuproof.backends.sagemaker.notebooks.plan import BUCKET_TAG
from gpuproof.catalogue import Catalogue
from gpuproof.catalogue.model import Price
from gpuproof.catalogue.storage_prices import SAGEMAKER_STORAGE, Volume
from gpuproof.errors import GPUproofError
from gpuproof.timestamps import iso_time

BILLED = ("Pending", "InService", "Updating")
"""States in which an instance may be billed."""

DEFAULT_VOLUME_GB = 5
"""Source: https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_CreateNotebookInstance.html"""

_AT_ONCE = 8
_REPORT_AGE_S = 600.0
"""Age from which a report of an instance, which is uploaded every minute, is not believed."""


@dataclass(frozen=True)
class ListedNotebook:
    """One notebook instance.

    Args:
        status: such as `InService`.
        instance_type: such as `ml.g5.xlarge`.
        price: of an hour of the instance; None if unknown.
        volume_gb: size of its volume; None if unknown.
        volume_usd_per_hour: price of its volume; None if unknown.
        created: seconds since the epoch.
        running_seconds: since its last start; None if it is stopped.
        idle_seconds: without work of kernels or GPUs; None if unknown.
        watched: whether it stops by itself, with GPUproof's lifecycle configuration.
    """

    name: str
    status: str
    instance_type: str
    price: Price | None
    volume_gb: int | None
    volume_usd_per_hour: float | None
    created: float
    running_seconds: float | None
    idle_seconds: float | None
    watched: bool

    @property
    def usd_per_day(self) -> float | None:
        """What a day costs in the present state, with the volume; None if a price is unknown."""
        if self.volume_usd_per_hour is None:
            return None
        if self.status not in BILLED:
            return self.volume_usd_per_hour * 24
        return None if self.price is None else (self.price.usd_per_hour + self.volume_usd_per_hour) * 24

    @property
    def usd_since_start(self) -> float | None:
        """What instance and volume have cost since the last start; earlier times are not known."""
        if self.running_seconds is None or self.price is None or self.volume_usd_per_hour is None:
            return None
        return (self.price.usd_per_hour + self.volume_usd_per_hour) * self.running_seconds / 3600

    def to_json(self) -> dict[str, Any]:
        """The JSON form."""
        return {
            "name": self.name,
            "status": self.status,
            "instance_type": self.instance_type,
            "usd_per_hour": None if self.price is None else self.price.usd_per_hour,
            "volume_gb": self.volume_gb,
            "volume_usd_per_hour": self.volume_usd_per_hour,
            "usd_per_day": self.usd_per_day,
            "usd_since_start": self.usd_since_start,
            "created": iso_time(self.created),
            "running_seconds": self.running_seconds,
            "idle_seconds": self.idle_seconds,
            "stops_when_idle": self.watched,
        }


def list_notebooks(
    aws: Aws, now: Callable[[], float], catalogue: Catalogue | None = None
) -> list[ListedNotebook]:
    """All notebook instances of the account in the region, newest first."""
    catalogue = catalogue or Catalogue.load()
    region = aws.region

    def listed(summary: Mapping[str, Any]) -> ListedNotebook:
        status, kind = summary["NotebookInstanceStatus"], summary["InstanceType"]
        watched = is_own_config(summary.get("NotebookInstanceLifecycleConfigName"))
        changed = summary["LastModifiedTime"].timestamp()
        size = _volume_gb(aws, summary["NotebookInstanceName"])
        volume = None
        if size is not None:
            volume = catalogue.volume_price(Volume(SAGEMAKER_STORAGE, size, use="notebook"), region)
        return ListedNotebook(
            name=summary["NotebookInstanceName"],
            status=status,
            instance_type=kind,
            price=catalogue.price(kind, region, "notebook"),
            volume_gb=size,
            volume_usd_per_hour=None if volume is None else volume.usd_per_hour,
            created=summary["CreationTime"].timestamp(),
            running_seconds=max(0.0, now() - changed) if status in BILLED else None,
            idle_seconds=_idle_seconds(aws, summary, now()) if watched and status == "InService" else None,
            watched=watched,
        )

    with ThreadPoolExecutor(_AT_ONCE) as pool:
        return list(pool.map(listed, aws.list_notebooks()))


def _volume_gb(aws: Aws, name: str) -> int | None:
    """The size of the volume of an instance; None if it cannot be read, or the instance was deleted meanwhile."""
    try:
        found = aws.describe_notebook(name)
    except GPUproofError:
        return None  # the list is useful without it
    return None if found is None else found.get("VolumeSizeInGB", DEFAULT_VOLUME_GB)


def _idle_seconds(aws: Aws, summary: Mapping[str, Any], now: float) -> float | None:
    """What an instance has reported; None if it has not, or not lately."""
    try:
        bucket = aws.tags(summary["NotebookInstanceArn"]).get(BUCKET_TAG)
        key = f"{notebook_results(summary['NotebookInstanceName'])}/idle.json"
        content = aws.get_bytes(bucket, key) if bucket else None
        report = json.loads(content) if content else None
        if report is None or now - float(report["at"]) > _REPORT_AGE_S:
            return None
        return float(report["idle_seconds"]) + max(0.0, now - float(report["at"]))
    except (GPUproofError, ValueError, KeyError, TypeError):
        return None  # the list is useful without it
