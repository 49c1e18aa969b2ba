"""How much of the labelled projects' mistakes is found, and how many findings are wrong; `measure.py` prints them."""

from __future__ import annotations

import pytest

from check.corpus.measure import Totals, labels_out_of_place, outcome, projects

RECALL = 0.85
"""Share of all mistakes that are found. Raise it with every rule that finds more."""
CERTAIN_RECALL = 0.88
PRECISION = 0.98
CLEAN_FLAGGED = 0.01
"""Share of the clean projects with a finding."""


def test_labels_name_files_and_lines_that_exist() -> None:
    assert [problem for project in projects() for problem in labels_out_of_place(project)] == []


@pytest.mark.slow
def test_recall_and_precision_are_as_high_as_before() -> None:
    totals = Totals()
    for project in projects():
        totals.add(outcome(project))
    assert totals.recall >= RECALL
    assert totals.certain_recall >= CERTAIN_RECALL
    assert totals.precision >= PRECISION
    assert len(totals.flagged) <= CLEAN_FLAGGED * totals.clean, totals.flagged
