"""Every row of the error texts keeps its invariants."""

from __future__ import annotations

import re
from collections import Counter

import pytest

from gpuproof.catalogue import Catalogue
from gpuproof.explain.advice import ADVICE
from gpuproof.explain.patterns import (
    KnownError,
    citations,
    failure_signs,
    known_errors,
    log_facts,
)
from gpuproof.explain.report import template_fields
from gpuproof.gpu.xids import known_xids

ERRORS = known_errors()
CODES = {error.code for error in ERRORS}
FACTS = {"driver", "gpu", "instance_type", "region", "operation", "torch", "tensorflow", "python"}
DERIVED = {"found_cuda"}


def test_there_are_at_least_ninety_and_none_twice() -> None:
    assert len(ERRORS) >= 90
    assert [code for code, count in Counter(error.code for error in ERRORS).items() if count > 1] == []


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: error.code)
def test_every_row_is_complete(error: KnownError, catalogue: Catalogue) -> None:
    groups: set[str] = set(DERIVED)
    for pattern in filter(None, (error.pattern, error.near, error.also)):
        groups |= set(re.compile(pattern, re.M).groupindex)
        assert not re.search(pattern, "")
    assert template_fields(error.cause) | template_fields(error.remedy) <= groups
    assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", error.code)
    assert error.depth in ("cause", "symptom", "wrapper")
    assert error.when in ("", "gpu-expected")
    assert all(clue.isascii() and len(clue) >= 6 for clue in error.clues)
    assert set(error.needs) <= set(ADVICE)
    assert set(error.caused_by) <= CODES | {"*"}
    assert error.evidence in (
        "reproduced",
        "read-in-source",
        "read-in-docs",
        "seen-in-logs",
        "general-knowledge",
    )
    assert error.source in citations().keys() | catalogue.tables.sources.keys()
    assert re.fullmatch(r"20\d\d-\d\d-\d\d", error.as_of)


def test_a_symptom_and_a_wrapper_can_be_explained_away() -> None:
    assert [error.code for error in ERRORS if error.depth != "cause" and not error.caused_by] == []


def test_every_source_is_used_and_states_what_was_read() -> None:
    used = {error.source for error in ERRORS} | {known.source for known in known_xids().values()}
    assert citations().keys() <= used
    for row in citations().values():
        assert row["what"]
        assert row["confidence"] in ("high", "medium", "low")


def test_facts_and_signs_compile_and_a_fact_has_one_group() -> None:
    assert {fact.fact for fact in log_facts()} == FACTS
    for fact in log_facts():
        assert re.compile(fact.pattern).groups == 1, fact
    assert all(re.compile(sign.pattern) for sign in failure_signs())


def test_every_kind_of_advice_is_wanted_by_some_row() -> None:
    assert set(ADVICE) == {name for error in ERRORS for name in error.needs}


def test_every_xid_that_a_pattern_names_has_a_meaning() -> None:
    named = {
        number
        for error in ERRORS
        if error.code.startswith("gpu-xid")
        for group in re.findall(r"\(\?P<xid>([\d|]+)\)", error.pattern)
        for number in group.split("|")
    }
    assert {int(number) for number in named} == {
        known.number for known in known_xids().values() if known.remedy
    }
