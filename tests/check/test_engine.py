"""A fault in one rule or file loses no other finding, and models are dropped without changing any."""

from pathlib import Path
from typing import Any

import pytest

from gpuproof.findings import Severity
from gpuproof.linter import settings_by_file
from gpuproof.linter.analysis import workspace
from gpuproof.linter.engine import CheckReport, check_paths
from gpuproof.linter.jobs import link
from gpuproof.linter.project import Project
from gpuproof.linter.registry import RuleEntry, select_rules
from gpuproof.linter.rule import Hits, Rule
from gpuproof.linter.source.span import Unit
from support.check_helpers import check_here, write_files

TRAIN = """import torch; torch.set_grad_enabled(False)
model = torch.nn.Linear(4, 2).to("cuda")
scores = model(torch.ones(1, 4).to("cuda")).numpy()
"""
LAUNCH = """
from sagemaker.pytorch import PyTorch
from settings import TYPE
PyTorch(entry_point="train_{n}.py", instance_type=TYPE, instance_count=1, nonsense=1).fit()
"""


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def broken_rule(code: str = "ZZ101", error: type[Exception] = KeyError, on: str = "") -> Rule:
    rule = Rule(code, "broken", Severity.ERROR)

    @rule.module
    def check(module: Any, _: Any) -> Any:
        yield rule.hit(module.unit.span(1), "before")
        if on in module.path:
            raise error("gone")

    return rule


def with_rules(monkeypatch: pytest.MonkeyPatch, *rules: Rule) -> None:
    monkeypatch.setattr(
        settings_by_file,
        "select_rules",
        lambda selection: [  # pyright: ignore[reportUnknownLambdaType]
            *select_rules(selection),
            *map(RuleEntry.of, rules),
        ],
    )


def described(report: CheckReport) -> list[tuple[str, str, str]]:
    return [(str(hit.finding.location), hit.code, hit.finding.message) for hit in report.hits]


@pytest.mark.parametrize("error", [KeyError, RecursionError, MemoryError, ZeroDivisionError])
def test_a_rule_that_fails_loses_no_other_finding(
    here: Path, monkeypatch: pytest.MonkeyPatch, error: type[Exception]
) -> None:
    write_files(here, {"a.py": TRAIN, "b.py": TRAIN, "c.py": "x = (\n"})
    expected = described(check_here())
    assert len(expected) == 3
    with_rules(monkeypatch, broken_rule(error=error, on="a.py"))
    report = check_here()
    assert [description for description in described(report) if description[1] != "ZZ101"] == expected
    # What the rule had found before it failed is kept.
    assert sum(description[1] == "ZZ101" for description in described(report)) == 2
    (found,) = report.internal_errors
    assert (found.file, found.rules) == ("a.py", ("ZZ101",))
    assert found.error.startswith(error.__name__)
    assert "test_engine.py" in found.trace
    assert "--ignore ZZ101" in found.remedy


def test_rules_that_fail_on_a_file_with_the_same_error_are_one_line(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_files(here, {"a.py": TRAIN})
    with_rules(monkeypatch, broken_rule("ZZ101"), broken_rule("ZZ102"))
    (found,) = check_here().internal_errors
    assert found.message == "rules ZZ101, ZZ102 failed: KeyError: 'gone'"


def test_a_job_whose_script_cannot_be_found_out_loses_no_other_job(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = {f"launch_{n}.py": LAUNCH.format(n=n) for n in range(3)}
    write_files(here, {**files, "settings.py": "TYPE = 'ml.g5.xlarge'\n"})
    linked = link._linked

    def fail(job: Any, workspace: Any) -> Any:
        if job.span.unit.path == "launch_1.py":
            raise LookupError("no")
        return linked(job, workspace)

    monkeypatch.setattr(link, "_linked", fail)
    report = check_here(select=("SDK101",))
    assert [error.file for error in report.internal_errors] == ["launch_1.py"]
    assert {hit.span.unit.path for hit in report.hits} >= {"launch_0.py", "launch_2.py"}


def test_a_file_that_cannot_be_read_because_of_a_bug_loses_no_other(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from gpuproof.linter.source import notebook

    def fail(path: str, raw: bytes) -> Any:
        raise AttributeError("bug")

    monkeypatch.setattr(notebook, "read", fail)
    write_files(here, {"a.py": TRAIN, "b.ipynb": "{}"})
    report = check_here()
    assert [hit.span.unit.path for hit in report.hits] == ["a.py"]
    assert report.internal_errors[0].message == "reading the file failed: AttributeError: bug"


@pytest.fixture
def small_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workspace, "MAX_CACHED", 100)


def test_dropped_models_change_no_finding(here: Path, request: pytest.FixtureRequest) -> None:
    for n in range(12):
        following = f"import helper_{(n + 1) % 12}\n"
        write_files(
            here, {f"train_{n}.py": f"import helper_{n}\n{TRAIN}", f"helper_{n}.py": following + TRAIN}
        )
        write_files(here, {f"launch_{n}.py": LAUNCH.format(n=n)})
    write_files(
        here,
        {"settings.py": "from more import TYPE as BASE\nTYPE = 'ml.g5.12xlarge'\n", "more.py": "TYPE = 1\n"},
    )
    expected = described(check_here())
    request.getfixturevalue("small_memory")
    report = check_here()
    assert described(report) == expected
    assert report.internal_errors == ()
    assert len(expected) > 24


def test_a_unit_never_has_two_models(here: Path, small_memory: None) -> None:
    from gpuproof.linter.project import Project
    from gpuproof.linter.source.read import read_units

    write_files(here, {f"m{n}.py": "x = 1\n" * 50 for n in range(5)})
    units, _ = read_units([f"m{n}.py" for n in range(5)])
    space = Project(units).workspace
    first = space.module(units[0])
    for unit in units[1:]:
        space.module(unit)
        space.trim()
    assert space.module(units[0]) is first


@pytest.mark.parametrize(
    ("place", "name"),
    [
        ("gpuproof.linter.engine", "is_suppressed"),
        ("gpuproof.linter.project", "passed_words"),
        ("gpuproof.linter.jobs.link", "_linked"),
        ("gpuproof.linter.source.read", "read_file"),
    ],
)
def test_a_bug_in_one_step_is_reported_and_the_check_ends(
    place: str, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise ZeroDivisionError

    launch = 'from sagemaker.pytorch import PyTorch\nPyTorch(entry_point="t.py", instance_type="g5.xlarge")\n'
    write_files(tmp_path, {"launch.py": launch, "t.py": "x = 1\n"})
    monkeypatch.setattr(f"{place}.{name}", fail)
    report = check_paths([str(tmp_path)])
    assert report.internal_errors
    assert "ZeroDivisionError" in report.internal_errors[0].message


def test_unit_checks_see_only_the_kinds_of_their_rule(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rule = Rule("ZZ101", "of-images", Severity.ERROR, kinds=("dockerfile",))

    @rule.unit
    def check(unit: Unit, _: Project) -> Hits:
        yield rule.hit(unit.span(1), unit.kind)

    with_rules(monkeypatch, rule)
    write_files(here, {"a.py": "x = 1\n", "Dockerfile": "FROM python:3.11\n"})
    report = check_here()
    assert [hit.finding.message for hit in report.hits if hit.code == "ZZ101"] == ["dockerfile"]
