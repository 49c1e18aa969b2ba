"""How many everyday mistakes in whole projects are found; `recall.py` prints them."""

from __future__ import annotations

import pytest

from check.recall.recall import findings, mutations, outcomes, projects

pytestmark = pytest.mark.slow

FOUND = {
    "endpoint_images": 21,
    "keras_flowers": 20,
    "lightning_segmentation": 21,
    "torchvision_finetune": 22,
    "trainer_reviews": 20,
}
"""The number of mistakes that are found in each project. Raise it with every rule that finds more; never below 90 % of all."""


def test_every_project_has_at_least_twenty_mistakes_and_nine_of_ten_are_found() -> None:
    assert projects() == sorted(FOUND)
    assert all(len(mutations(project)) >= 20 for project in projects())
    assert sum(FOUND.values()) >= 0.9 * sum(len(mutations(project)) for project in projects())


@pytest.mark.parametrize("project", FOUND)
def test_a_sound_project_has_no_findings(project: str) -> None:
    _, noise = findings(project)
    assert [f"{finding.code} {finding.location}: {finding.message}" for finding in noise] == []


@pytest.mark.parametrize("project", FOUND)
def test_as_many_mistakes_are_found_as_before(project: str) -> None:
    missed = [outcome.mutation.mistake for outcome in outcomes(project) if not outcome.found]
    found = len(mutations(project)) - len(missed)
    assert found >= FOUND[project], f"missed: {missed}"
