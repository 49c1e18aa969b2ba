"""Every rule's docstring is its test: Bad is found, where it says; Good and Quiet are not."""

import re
import sys
from itertools import pairwise
from pathlib import Path

import pytest

from gpuproof.findings import Severity
from gpuproof.linter.docs.examples import Example, read_documentation
from gpuproof.linter.engine import CheckOptions, check_paths
from gpuproof.linter.fixing.apply import plan_fixes, write_change
from gpuproof.linter.jobs.memory_plan import TraceOptions
from gpuproof.linter.project import Target
from gpuproof.linter.registry import Selection, all_rules
from gpuproof.linter.rule import Hit, Rule
from support.check_helpers import write_files
from support.forked_tracers import fork_tracers

CASES = [
    pytest.param(
        rule,
        example,
        id=f"{rule.code}-{example.kind}-{number}",
        marks=[pytest.mark.slow] if rule.when == "plan" else [],
    )
    for rule in all_rules()
    for number, example in enumerate(read_documentation(rule.doc).examples)
]


def check_example(rule: Rule, example: Example, folder: Path, monkeypatch: pytest.MonkeyPatch) -> list[Hit]:
    monkeypatch.chdir(folder)
    for name, content in example.files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(content)
    trace = TraceOptions(sys.executable) if rule.when == "plan" else None
    if trace is not None:
        fork_tracers(monkeypatch)
    report = check_paths(["."], CheckOptions(Selection(select=(rule.code,)), Target(trace=trace)))
    return [hit for hit in report.hits if hit.code == rule.code]


@pytest.mark.parametrize(("rule", "example"), CASES)
def test_the_example_is_judged_as_documented(
    rule: Rule, example: Example, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hits = check_example(rule, example, tmp_path, monkeypatch)
    if example.kind in ("Good", "Quiet"):
        assert [hit.finding.message for hit in hits] == []
    if example.kind == "Bad":
        assert hits, "nothing was found"
        for hit in hits:
            assert re.search(r"[^?.][.?]$", hit.finding.message), "a message is a sentence"
            assert "\n" not in hit.finding.message, "a message is one line"
        if example.marked:
            assert {(hit.finding.location.file, hit.finding.location.line) for hit in hits} == example.marked


GOOD = [case for case in CASES if case.values[1].kind == "Good"]  # type: ignore[union-attr]


@pytest.mark.slow
@pytest.mark.parametrize("is_repository", [False, True], ids=["folder", "repository"])
@pytest.mark.parametrize(("rule", "example"), GOOD)
def test_what_a_page_says_to_use_instead_passes_the_check(
    rule: Rule, example: Example, is_repository: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In an empty folder, with the rules that are on by default: no error and no warning of any rule."""
    del rule
    monkeypatch.chdir(tmp_path)
    if is_repository:
        (tmp_path / ".git").mkdir()
    write_files(tmp_path, dict(example.files))
    report = check_paths(["."])
    assert [hit.finding.message for hit in report.hits if hit.finding.severity is not Severity.NOTE] == []


FIXES = [
    pytest.param(rule, bad, fixed, id=f"{rule.code}-{number}")
    for rule in all_rules()
    for number, (bad, fixed) in enumerate(pairwise(read_documentation(rule.doc).examples))
    if fixed.kind == "Fixed"
]


@pytest.mark.parametrize(("rule", "bad", "fixed"), FIXES)
def test_fixing_the_bad_example_produces_the_documented_result(
    rule: Rule, bad: Example, fixed: Example, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hits = check_example(rule, bad, tmp_path, monkeypatch)
    for change in plan_fixes(hits, unsafe=True):
        write_change(change)
    assert {name: (tmp_path / name).read_text() for name in fixed.files} == fixed.files


@pytest.mark.parametrize("rule", all_rules(), ids=lambda rule: rule.code)
def test_a_rule_has_a_reason_and_examples_of_both_kinds(rule: Rule) -> None:
    documentation = read_documentation(rule.doc)
    verdicts = {example.kind for example in documentation.examples}
    assert len(documentation.reason) > 60
    assert {"Bad", "Good"} <= verdicts
