"""The tables beside the checks: rows with their source and date."""

from __future__ import annotations

import csv
from functools import cache
from pathlib import Path

FOLDER = Path(__file__).parent / "data" / "environment"


@cache
def table(name: str) -> tuple[dict[str, str], ...]:
    """The rows of `data/NAME.csv`."""
    with (FOLDER / f"{name}.csv").open(encoding="utf-8", newline="") as file:
        return tuple(csv.DictReader(file))
