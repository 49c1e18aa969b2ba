"""The doctor's tables of facts, each row with its source."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from gpuproof.util.csv_table import read_rows

FOLDER = Path(__file__).parent / "data"


@cache
def table(name: str) -> list[dict[str, str]]:
    """The rows of `data/NAME.csv`, such as `stack/pci_gpus`."""
    return read_rows(FOLDER / f"{name}.csv")
