"""Reads the catalogue's CSV files into typed rows, each file when it is first needed.

Every table is the shipped file, overlaid with the refreshed one if it exists.
"""

import csv
import re
from collections.abc import Callable, Iterator
from functools import cached_property
from pathlib import Path
from typing import TypeVar

from gpuproof.catalogue import csv_rows, model, storage_prices
from gpuproof.catalogue.csv_rows import Row
from gpuproof.catalogue.prices import DEFAULT_REGION, Key, RegionPrices
from gpuproof.catalogue.regions import Region

SHIPPED = Path(__file__).parent / "data"
"""The facts of this version of GPUproof."""

T = TypeVar("T")


class Tables:
    """Every table of the catalogue, read at first use.

    Args:
        refreshed: the folder that `gpuproof catalogue refresh` writes; may be None or missing.
    """

    def __init__(self, shipped: Path = SHIPPED, refreshed: Path | None = None) -> None:
        self._shipped = shipped
        self._refreshed = refreshed
        self.ignored: list[Path] = []
        """Refreshed tables that could not be read."""
        self._prices: dict[str, RegionPrices] = {}

    @cached_property
    def gpu_instances(self) -> dict[str, model.Instance]:
        """EC2 types with GPUs, by type."""
        found = {row.name: row for row in self._shipped_rows("instances", csv_rows.gpu_instance)}
        for row in self._refreshed_rows("instances", csv_rows.gpu_instance):
            old = found.get(row.name)
            # The API lists a type until its last day: keep the announcement of its end.
            announced = old is not None and old.status == "legacy"
            found[row.name] = row._replace(status="legacy", note=old.note) if old and announced else row
        return found

    @cached_property
    def gpus(self) -> dict[str, model.Gpu]:
        """GPU models, by key."""
        return {row.name: row for row in self._shipped_rows("gpus", csv_rows.gpu)}

    @cached_property
    def offerings(self) -> dict[str, dict[str, model.Offering]]:
        """Offerings by region, then by type. Missing regions were not read."""
        found: dict[str, dict[str, model.Offering]] = {}
        for row in self._shipped_rows("offerings", csv_rows.offering):
            found.setdefault(row.region, {})[row.instance_type] = row
        fresh: dict[str, dict[str, model.Offering]] = {}
        for row in self._refreshed_rows("offerings", csv_rows.offering):
            fresh.setdefault(row.region, {})[row.instance_type] = row
        # A refreshed region is replaced as a whole, so that types it no longer offers are removed.
        return found | fresh

    @cached_property
    def regions(self) -> dict[str, Region]:
        """AWS regions by name."""
        return {row.region: row for row in self._shipped_rows("regions", csv_rows.region)}

    @cached_property
    def grid_carbon(self) -> dict[str, model.GridCarbon]:
        """The carbon intensity of electricity, by region; a region without a dated public figure is missing."""
        return {row.region: row for row in self._shipped_rows("grid_carbon", csv_rows.grid_carbon)}

    def prices(self, region: str) -> RegionPrices:
        """The prices of one region; its file is read at first use. Empty for an unknown region."""
        if region not in self._prices:
            self._prices[region] = self._region_prices(region)
        return self._prices[region]

    @cached_property
    def priced_regions(self) -> tuple[str, ...]:
        """Regions with prices."""
        folders = (self._shipped, *([self._refreshed] if self._refreshed else []))
        return tuple(sorted({path.stem for folder in folders for path in (folder / "prices").glob("*.csv")}))

    @cached_property
    def ec2_types_with_prices(self) -> frozenset[str]:
        """EC2 types that have a price in the default region; types with GPUs are only some of them."""
        rows = self.prices(DEFAULT_REGION).rows.values()
        return frozenset(row.instance_type for row in rows if row.service == "ec2")

    @cached_property
    def sagemaker_ratios(self) -> dict[tuple[str, str], model.SageMakerRatio]:
        """Ratios of SageMaker's prices to EC2's, by family and size."""
        rows = self._shipped_rows("sagemaker_ratios", csv_rows.sagemaker_ratio)
        return {(row.family, row.size): row for row in rows}

    @cached_property
    def storage_prices(self) -> dict[storage_prices.Key, storage_prices.Tiers]:
        """Prices of volumes, by service, use, type, unit and region."""
        fresh = self._refreshed_rows("storage_prices", storage_prices.storage_price)
        # A refreshed region is replaced as a whole, for each service.
        again = {(row.service, row.region) for row in fresh}
        shipped = self._shipped_rows("storage_prices", storage_prices.storage_price)
        kept = (row for row in shipped if (row.service, row.region) not in again)
        return storage_prices.group_prices((*kept, *fresh))

    @cached_property
    def builds(self) -> tuple[model.Build, ...]:
        """Framework builds, newest first within a framework."""
        return tuple(self._shipped_rows("builds", csv_rows.build))

    @cached_property
    def cuda_drivers(self) -> tuple[model.CudaDriver, ...]:
        """CUDA toolkits and their drivers, newest first."""
        return tuple(self._shipped_rows("cuda_drivers", csv_rows.cuda_driver))

    @cached_property
    def images(self) -> tuple[model.ImageRow, ...]:
        """Deep Learning Containers."""
        return tuple(self._shipped_rows("images", csv_rows.image))

    @cached_property
    def huggingface_images(self) -> tuple[model.ImageRow, ...]:
        """Hugging Face's Deep Learning Containers."""
        return tuple(self._shipped_rows("huggingface_images", csv_rows.image))

    @cached_property
    def registries(self) -> dict[str, model.Registry]:
        """Accounts of the Deep Learning Containers, by region."""
        return {row.region: row for row in self._shipped_rows("image_accounts", csv_rows.registry)}

    @cached_property
    def amis(self) -> tuple[model.Ami, ...]:
        """Lines of Deep Learning AMIs of which AWS still builds new ones."""
        return tuple(ami for ami in self.all_amis if ami.status == "current")

    @cached_property
    def all_amis(self) -> tuple[model.Ami, ...]:
        """Lines of Deep Learning AMIs, old ones included."""
        return tuple(self._shipped_rows("amis", csv_rows.ami))

    @cached_property
    def ami_ids(self) -> dict[tuple[str, str], str]:
        """AMI ids by SSM parameter and region; only after a refresh."""
        read = self._refreshed_rows("ami_ids", lambda row: row)
        return {(row["ssm_parameter"], row["region"]): row["ami_id"] for row in read}

    @cached_property
    def host_amis(self) -> tuple[model.HostAmi, ...]:
        """Host images of SageMaker endpoints and batch transform jobs."""
        return tuple(self._shipped_rows("host_amis", csv_rows.host_ami))

    @cached_property
    def quotas(self) -> tuple[model.QuotaRow, ...]:
        """Quotas, and patterns of their names."""
        return tuple(self._shipped_rows("quotas", csv_rows.quota))

    @cached_property
    def quota_limits(self) -> dict[tuple[str, str, str], model.QuotaLimit]:
        """The account's quotas by service, region and name; only after a refresh."""
        read = self._refreshed_rows("quota_limits", csv_rows.quota_limit)
        return {(row.service, row.region, row.name): row for row in read}

    @cached_property
    def sources(self) -> dict[str, model.Source]:
        """Sources by key."""
        return {row.source: row for row in self._shipped_rows("sources", csv_rows.source)}

    def other_instance(self, ec2_type: str) -> model.Instance | None:
        """An EC2 type without an NVIDIA or AMD GPU."""
        row = self._other_types.get(ec2_type)
        return csv_rows.other_instance(row) if row else None

    @cached_property
    def _other_types(self) -> dict[str, Row]:
        # 1,300 types, rarely needed: each is parsed on demand.
        return {row["instance_type"]: row for row in _read(self._shipped / "other_types.csv")}

    @cached_property
    def _not_sold(self) -> dict[str, set[Key]]:
        found: dict[str, set[Key]] = {}
        for row in _read(self._shipped / "not_sold.csv"):
            key = (row["service"], row["use"], row["instance_type"], "on-demand")
            found.setdefault(row["region"], set()).add(key)
        return found

    def _region_prices(self, region: str) -> RegionPrices:
        if not re.fullmatch(r"[a-z0-9-]{1,40}", region):  # it becomes a file's name
            return RegionPrices({})
        table = f"prices/{region}"
        fresh = self._refreshed_rows(table, csv_rows.price)
        # Refreshed prices replace all of the same service and market, as with offerings.
        again = {(row.service, row.market) for row in fresh}
        shipped: Iterator[model.Price] = iter(())
        if (self._shipped / f"{table}.csv").exists():
            shipped = self._shipped_rows(table, csv_rows.price)
        kept = (row for row in shipped if (row.service, row.market) not in again)
        rows = {(row.service, row.use, row.instance_type, row.market): row for row in (*kept, *fresh)}
        return RegionPrices(rows, again, self._not_sold.get(region, ()))

    def _shipped_rows(self, table: str, reader: Callable[[Row], T]) -> Iterator[T]:
        return map(reader, _read(self._shipped / f"{table}.csv"))

    def _refreshed_rows(self, table: str, reader: Callable[[Row], T]) -> list[T]:
        if self._refreshed is None or not (path := self._refreshed / f"{table}.csv").exists():
            return []
        try:
            return list(map(reader, _read(path)))
        except (OSError, ValueError, KeyError, TypeError, csv.Error):
            # A cached file may be truncated or from another version: use the shipped facts.
            self.ignored.append(path)
            return []


def _read(path: Path) -> Iterator[Row]:
    with path.open(newline="", encoding="utf-8") as file:
        lines = csv.reader(file)
        header = next(lines, [])
        for line in lines:
            yield dict(zip(header, line, strict=True))
