"""The folder of refreshed tables, with the date of each part.

Each file is replaced atomically, so a reader sees the old table or the new one. `state.json` is written last.
"""

import csv
import json
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from gpuproof.catalogue.csv_rows import Row
from gpuproof.util.atomic import replacing

STATE_VERSION = 2
"""2: prices are in one file per region."""


class Scope(NamedTuple):
    """One part of one region.

    Attributes:
        part: such as `offerings`.
        region: `*` if the data is the same in all regions.
    """

    part: str
    region: str


class TablePart(NamedTuple):
    """The table that a part is stored in.

    Attributes:
        table: the file's name without `.csv`; `{region}` stands for the region.
        owns: whether a row of the table belongs to this part and region, and is therefore replaced by a refresh.
        key: the column with unique values; a new row replaces the old one with the same value.
    """

    table: str
    owns: Callable[[Row, str], bool]
    key: str | None = None


def _never(_row: Row, _region: str) -> bool:
    return False


def _in_region(row: Row, region: str) -> bool:
    return row["region"] == region


def _price_of(service: str, market: str) -> Callable[[Row, str], bool]:
    return lambda row, region: (row["service"], row["market"], row["region"]) == (service, market, region)


TABLES: Mapping[str, TablePart] = {
    "instances": TablePart("instances", _never, key="instance_type"),
    "offerings": TablePart("offerings", _in_region),
    "ec2-prices": TablePart("prices/{region}", _price_of("ec2", "on-demand")),
    "spot-prices": TablePart("prices/{region}", _price_of("ec2", "spot")),
    "sagemaker-prices": TablePart("prices/{region}", _price_of("sagemaker", "on-demand")),
    "storage-prices": TablePart("storage_prices", _in_region),
    "quotas": TablePart("quota_limits", _in_region),
    "amis": TablePart("ami_ids", _in_region),
}
"""The parts of a refresh, and the rows that each replaces."""


class Store:
    """The refreshed tables in one folder.

    Args:
        folder: created by the first save.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def as_of(self) -> dict[Scope, str]:
        """ISO dates on which each part of each region was last read."""
        parts: dict[str, dict[str, str]] = self._state().get("as_of", {})
        return {Scope(part, region): date for part, dates in parts.items() for region, date in dates.items()}

    def save(self, fresh: Mapping[Scope, list[Row]], as_of: str) -> None:
        """Replaces the parts that were read, keeps the others."""
        if not fresh:
            return
        self._folder.mkdir(parents=True, exist_ok=True)
        by_table: dict[str, list[Scope]] = {}
        for scope in fresh:
            table = TABLES[scope.part].table.format(region=scope.region)
            by_table.setdefault(table, []).append(scope)
        for table, scopes in by_table.items():
            kept = [row for row in self._rows(table) if not any(_owned(row, scope) for scope in scopes)]
            rows = [*kept, *(row for scope in scopes for row in fresh[scope])]
            key = TABLES[scopes[0].part].key
            self._write(table, list({row[key]: row for row in rows}.values()) if key else rows)
        dates = {**self.as_of(), **dict.fromkeys(fresh, as_of)}
        self._write_state(dates)

    def _rows(self, table: str) -> list[Row]:
        path = self._folder / f"{table}.csv"
        if not path.exists():
            return []
        with path.open(newline="", encoding="utf-8") as file:
            return list(csv.DictReader(file))

    def _write(self, table: str, rows: Iterable[Row]) -> None:
        rows = list(rows)
        path = self._folder / f"{table}.csv"
        if not rows:
            path.unlink(missing_ok=True)
            return
        path.parent.mkdir(exist_ok=True)
        with replacing(path) as partial, partial.open("w", encoding="utf-8", newline="") as file:
            writer = csv.DictWriter(file, fieldnames=list(rows[0]), lineterminator="\n")
            writer.writeheader()
            writer.writerows(rows)

    def _state(self) -> dict[str, Any]:
        try:
            state = json.loads((self._folder / "state.json").read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return {}
        return state if isinstance(state, dict) and state.get("version") == STATE_VERSION else {}

    def _write_state(self, dates: Mapping[Scope, str]) -> None:
        parts: dict[str, dict[str, str]] = {}
        for scope, date in sorted(dates.items()):
            parts.setdefault(scope.part, {})[scope.region] = date
        with (
            replacing(self._folder / "state.json") as partial,
            partial.open("w", encoding="utf-8", newline="") as file,
        ):
            json.dump({"version": STATE_VERSION, "as_of": parts}, file, indent=2)


def _owned(row: Row, scope: Scope) -> bool:
    return TABLES[scope.part].owns(row, scope.region)
