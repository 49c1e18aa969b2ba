"""A baseline holds the findings that a project already has; only new ones are reported."""

import json
from pathlib import Path

import pytest

import gpuproof
from gpuproof.app.check import CheckRequest, check_files, write_baseline
from gpuproof.errors import UsageError
from gpuproof.linter.engine import CheckReport
from support.check_helpers import write_files

FLAG = 'parser.add_argument("--{name}", type=bool)\n'
SCRIPT = "import argparse\n\nparser = argparse.ArgumentParser()\n"


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    write_files(tmp_path, {"train.py": SCRIPT + FLAG.format(name="a")})
    return tmp_path


def request(baseline: str | None = "known.json", *paths: str) -> CheckRequest:
    return CheckRequest(paths or (".",), select=("SM106",), baseline=baseline)


def lines(report: CheckReport) -> list[int]:
    return [hit.span.line for hit in report.hits]


def test_known_findings_are_not_reported_and_new_ones_are(here: Path) -> None:
    write_baseline(request())
    assert (lines(check_files(request())), check_files(request()).known) == ([], 1)
    with (here / "train.py").open("a") as file:
        file.write(FLAG.format(name="b"))
    assert lines(check_files(request())) == [5]


def test_a_finding_stays_known_when_code_above_it_changes(here: Path) -> None:
    write_baseline(request())
    path = here / "train.py"
    path.write_text("# The first line.\n" + path.read_text())
    assert lines(check_files(request())) == []


def test_as_many_equal_findings_are_known_as_were_counted(here: Path) -> None:
    write_baseline(request())
    with (here / "train.py").open("a") as file:
        file.write(FLAG.format(name="a"))
    assert lines(check_files(request())) == [5]


def test_what_was_fixed_is_counted_but_not_that_of_unchecked_files(here: Path) -> None:
    write_files(here, {"other.py": SCRIPT + FLAG.format(name="b")})
    write_baseline(request())
    (here / "train.py").write_text(SCRIPT)
    assert check_files(request()).gone == 1
    assert check_files(request("known.json", "other.py")).gone == 0


def test_paths_are_relative_to_the_baseline(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_baseline(request())
    (here / "below").mkdir()
    monkeypatch.chdir(here / "below")
    assert lines(check_files(request("../known.json", ".."))) == []


def test_the_setting_names_the_baseline_of_a_project(here: Path) -> None:
    write_files(here, {"pyproject.toml": '[tool.gpuproof.check]\nbaseline = "known.json"\n'})
    assert write_baseline(request(None))[1].name == "known.json"
    assert lines(check_files(request(None))) == []
    assert not gpuproof.check(str(here), select=["SM106"]).failed


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (None, "cannot be read: no such file"),
        ("{", "is not valid JSON"),
        ('{"version": 9}', "its version is 9, not 1"),
        ('{"version": 1, "findings": [{"file": "a.py"}]}', "is damaged: KeyError"),
        ("[]", "its version is None"),
    ],
)
def test_a_file_that_is_no_baseline_is_rejected(content: str | None, reason: str, here: Path) -> None:
    if content is not None:
        (here / "known.json").write_text(content)
    with pytest.raises(UsageError, match=reason):
        check_files(request())


def test_an_empty_baseline_is_valid_json(here: Path) -> None:
    (here / "train.py").write_text(SCRIPT)
    write_baseline(request())
    assert json.loads((here / "known.json").read_text()) == {"version": 1, "findings": []}


@pytest.mark.parametrize("content", ["import torch\n", '{"name": "project"}', "\0\1"])
def test_a_file_that_is_no_baseline_is_not_overwritten(here: Path, content: str) -> None:
    (here / "known.json").write_text(content)
    with pytest.raises(UsageError, match="no baseline: it is not overwritten"):
        write_baseline(request())
    assert (here / "known.json").read_text() == content


@pytest.mark.parametrize("content", ["", '{"version": 0, "findings": []}'])
def test_a_baseline_of_another_version_is_written_again(here: Path, content: str) -> None:
    (here / "known.json").write_text(content)
    write_baseline(request())
    assert check_files(request()).known == 1
