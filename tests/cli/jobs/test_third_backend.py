"""A new backend is one package and one line in the registry: the commands know none by name."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from gpuproof import settings
from gpuproof.backends.registry import BACKENDS
from gpuproof.cli.main import main
from gpuproof.errors import ExitCode
from support.fake_backend import FakePlan, FakeRuns

Typed = Callable[..., tuple[int, str, str]]


@pytest.fixture
def typed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> Iterator[Typed]:
    """Run a command with a third backend registered; returns the exit code and its output."""
    monkeypatch.setitem(BACKENDS, "fake", "support.fake_backend:FakeBackend")
    monkeypatch.setattr(FakeRuns, "known", {})
    monkeypatch.setenv("GPUPROOF_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in settings._AWS_VARIABLES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)
    settings._made.cache_clear()
    (tmp_path / "train.py").write_text("print('never run')\n")

    def run(*words: str) -> tuple[int, str, str]:
        code = main(list(words))
        captured = capfd.readouterr()
        return code, captured.out, captured.err

    yield run
    settings._made.cache_clear()


def test_a_run_is_planned_submitted_followed_and_delivered(typed: Typed) -> None:
    code, out, err = typed("run", "train.py", "--on", "fake", "--queue", "blue", "--no-check")
    assert code == ExitCode.OK
    output = out + err
    assert "run        fake-1" in output
    assert "blue" in output
    assert "nothing really runs" in output
    assert "hello from the fake" in output
    assert "here       delivered" in output
    assert FakeRuns.known["fake-1"].delivered == ["train"]


def test_its_plan_is_shown(typed: Typed) -> None:
    code, out, err = typed("run", "train.py", "--on", "fake", "--no-check", "--dry-run")
    assert code == ExitCode.OK
    assert "1 source file:\n      19 B  train.py\n" in out + err
    assert "1 API call:" in out + err
    assert "fake start: start the run" in out + err
    assert not FakeRuns.known
    _, out, _ = typed(
        "run", "train.py", "--on", "fake", "--no-check", "--dry-run", "--format", "json", "--queue", "x"
    )
    assert json.loads(out) == {"version": 1, "queue": "x"}


def test_a_job_that_may_cost_more_than_the_limit_is_not_started(
    typed: Typed, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ("run", "train.py", "--on", "fake", "--no-check", "--max-cost")
    code, _, err = typed(*words, "5")
    assert code == ExitCode.UNDECIDED
    assert "'train' was not started: its highest possible cost is unknown, and the limit is $5.00." in err
    monkeypatch.setattr(FakePlan, "max_usd", 7.5)
    code, _, err = typed(*words, "$5")
    assert code == ExitCode.FAILED
    assert "it may cost up to $7.50, and the limit is $5.00." in err
    assert not FakeRuns.known
    assert typed(*words, "7.5")[0] == ExitCode.OK
    assert typed(*words, "-1")[0] == typed(*words, "nan")[0] == ExitCode.USAGE


def test_a_type_without_capacity_leads_to_the_next(typed: Typed) -> None:
    types = ("--instance-type", "ml.g6.xlarge", "--fallback", "ml.g5.xlarge")
    code, out, err = typed("run", "train.py", "--on", "fake", "--no-check", *types)
    assert code == ExitCode.OK
    assert "no ml.g6.xlarge is free" in out + err
    assert [run.status for run in FakeRuns.known.values()] == ["Failed", "Completed"]


def test_no_capacity_at_all_is_reported_as_json(typed: Typed) -> None:
    types = ("--instance-type", "ml.g6.xlarge")
    code, out, _ = typed("run", "train.py", "--on", "fake", "--no-check", *types, "--format", "json")
    assert code == ExitCode.AWS_REFUSED
    document = json.loads(out)
    assert document["run"]["id"] == "fake-1"
    assert document["exit_code"] == ExitCode.AWS_REFUSED
    assert document["tried"] == [
        {
            "name": "ml.g6.xlarge",
            "code": "CapacityError",
            "said": "CapacityError: none free.",
            "needs": "",
        }
    ]


def test_a_detached_run_is_listed_shown_read_stopped_and_removed(typed: Typed) -> None:
    code, out, err = typed("run", "train.py", "--on", "fake", "--no-check", "--detach")
    assert code == ExitCode.OK
    assert "running in the background; follow with: gpuproof logs -f fake-1 --on fake" in out + err
    assert "fake-1 is not watched" in out + err
    _, out, _ = typed("run", "train.py", "--on", "fake", "--no-check", "--detach", "--format", "json")
    assert json.loads(out) == {
        "version": 1,
        "max_usd": None,
        "id": "fake-1",
        "console": "https://fake/fake-1",
        "instance_type": "fake.large",
    }

    _, out, _ = typed("ps")
    assert "fake-1" in out
    assert "fake.large" in out
    _, out, _ = typed("ps", "--on", "fake", "--format", "json")
    assert [run["backend"] for run in json.loads(out)["runs"]] == ["fake"]
    _, out, _ = typed("show", "fake-1")
    assert "https://fake/fake-1" in out
    _, out, _ = typed("logs", "fake-1")
    assert out == "hello from the fake\n"
    _, out, _ = typed("stop", "fake-1", "--no-wait")
    assert out == "fake-1: Stopped\n"
    code, out, _ = typed("wait", "fake-1")
    assert (code, out) == (ExitCode.FAILED, "fake-1: Stopped\n")
    _, out, _ = typed("rm", "fake-1", "--on", "fake")
    assert out == "fake-1: removed\n"
    _, out, _ = typed("ps", "--on", "fake")
    assert out == "There are no runs on the fake. `gpuproof run train.py --on fake` starts one.\n"


def test_its_flags_are_in_the_help_and_rejected_elsewhere(typed: Typed) -> None:
    with pytest.raises(SystemExit):
        typed("run", "--help")
    code, _, err = typed("run", "train.py", "--queue", "blue")
    assert code == ExitCode.USAGE
    assert "--queue requires --on fake: only the fake has queues." in err
    code, _, err = typed("run", "train.py", "--on", "fake", "--python", "python3")
    assert code == ExitCode.USAGE
    assert "--python requires --on local" in err
