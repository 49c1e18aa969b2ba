"""Reads the CSV tables that GPUproof ships: a header, one fact per row, comment lines at the top."""

from __future__ import annotations

import csv
import io
import pkgutil
from collections.abc import Iterable
from itertools import dropwhile
from pathlib import Path


def read_rows(path: Path) -> list[dict[str, str]]:
    """Read a CSV file with a header into one dictionary per row; leading lines that start with `#` are skipped.

    Raises:
        OSError: the file cannot be read.
        csv.Error: the file is not well-formed.
    """
    with path.open(encoding="utf-8", newline="") as file:
        return _rows(file)


def read_package_rows(package: str, name: str) -> list[dict[str, str]]:
    """Read a CSV file that belongs to a package, also from within the agent's archive.

    Args:
        package: such as `gpuproof.gpu`.
        name: path below the package, such as `data/cuda_libraries.csv`.

    Raises:
        FileNotFoundError: the package has no such file.
        csv.Error: the file is not well-formed.
    """
    content = pkgutil.get_data(package, name)
    if content is None:
        raise FileNotFoundError(f"{package} has no {name}")
    return _rows(io.StringIO(content.decode(), newline=""))


def _rows(lines: Iterable[str]) -> list[dict[str, str]]:
    return list(csv.DictReader(dropwhile(_is_comment, lines), strict=True))


def _is_comment(line: str) -> bool:
    return line.startswith("#")
