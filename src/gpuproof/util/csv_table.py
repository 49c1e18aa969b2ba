"""Reads the CSV tables that GPUproof ships: a header, one fact per row, comment lines at the top."""

from __future__ import annotations

import csv
from itertools import dropwhile
from pathlib import Path


def read_rows(path: Path) -> list[dict[str, str]]:
    """Read a CSV file with a header into one dictionary per row; leading lines that start with `#` are skipped.

    Raises:
        OSError: the file cannot be read.
        csv.Error: the file is not well-formed.
    """
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(dropwhile(_is_comment, file), strict=True))


def _is_comment(line: str) -> bool:
    return line.startswith("#")
