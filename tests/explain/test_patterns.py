"""Every row of the error texts keeps its invariants."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Set

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
FACTS = {
    "driver",
    "gpu",
    "instance_type",
    "hosts",
    "ranks",
    "region",
    "operation",
    "torch",
    "tensorflow",
    "python",
}
DERIVED = {"found_cuda"}
EVIDENCE = ("reproduced", "read-in-source", "read-in-docs", "seen-in-logs", "general-knowledge")


def test_there_are_at_least_ninety_and_none_twice() -> None:
    assert len(ERRORS) >= 90
    assert [code for code, count in Counter(error.code for error in ERRORS).items() if count > 1] == []


def test_every_row_is_complete(catalogue: Catalogue) -> None:
    sources = citations().keys() | catalogue.tables.sources.keys()
    offenders = {error.code: _faults(error, sources) for error in ERRORS}
    assert {code: faults for code, faults in offenders.items() if faults} == {}


def _faults(error: KnownError, sources: Set[str]) -> list[str]:
    """What is wrong with a row."""
    patterns = [re.compile(pattern, re.M) for pattern in (error.pattern, error.near, error.also) if pattern]
    groups = DERIVED.union(*(pattern.groupindex for pattern in patterns))
    conditions = {
        "a pattern matches the empty text": not any(re.search(pattern.pattern, "") for pattern in patterns),
        "the texts name unknown groups": template_fields(error.cause) | template_fields(error.remedy)
        <= groups,
        "code": re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", error.code),
        "depth": error.depth in ("cause", "symptom", "wrapper"),
        "when": error.when in ("", "gpu-expected", "efa-expected", "error-if-failed"),
        "clues": all(clue.isascii() and len(clue) >= 6 for clue in error.clues),
        "needs": set(error.needs) <= set(ADVICE),
        "caused_by": set(error.caused_by) <= CODES | {"*"},
        "evidence": error.evidence in EVIDENCE,
        "source": error.source in sources,
        "as_of": re.fullmatch(r"20\d\d-\d\d-\d\d", error.as_of),
    }
    return [condition for condition, holds in conditions.items() if not holds]


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
