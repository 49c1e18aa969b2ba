"""Results of public test suites are read, and each failure has a reason."""

from __future__ import annotations

import csv
import re
from pathlib import Path

_BENCH = Path(__file__).parents[2] / "bench"


def test_the_patterns_of_reasons_are_expressions() -> None:
    with (_BENCH / "conformance" / "reasons.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert rows
    for row in rows:
        assert re.compile(row["test"])
        assert re.compile(row["message"])
        assert row["reason"].endswith(".")


def test_every_recorded_failure_has_a_reason() -> None:
    assert "unexplained" not in (_BENCH / "results" / "conformance.md").read_text(encoding="utf-8")
