"""Checkpoints go from one attempt to the next."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gpuproof.agent.paths import RunPaths
from gpuproof.backends.local.submit import (
    count_files,
    move_checkpoints,
    previous_run,
    restore_checkpoints,
)
from gpuproof.backends.record import RunRecord


def attempt(run_id: str, status: str = "Failed", name: str = "train", source: str = "/project") -> RunRecord:
    document: dict[str, Any] = {
        "id": run_id,
        "job_name": name,
        "kind": "training",
        "backend": "local",
        "status": status,
        "created": 1.0,
        "source_dir": source,
    }
    return RunRecord.of(document)


def before(*newest_first: RunRecord, without: str = "") -> str | None:
    """The attempt to go on from; those whose letter is in `without` left no checkpoints."""
    found = previous_run(newest_first, "train", "/project", lambda record: record.id not in without)
    return found.id if found else None


@pytest.mark.parametrize("status", ["Failed", "Stopped"])
def test_an_attempt_that_did_not_complete_is_gone_on_from(status: str) -> None:
    assert before(attempt("a", status)) == "a"


def test_behind_one_that_completed_nothing_is_looked_for() -> None:
    assert before(attempt("b", "Completed"), attempt("a", "Failed")) is None


@pytest.mark.parametrize("status", ["InProgress", "Stopping"])
def test_one_that_still_runs_keeps_its_own(status: str) -> None:
    assert before(attempt("b", status)) is None
    assert before(attempt("b", status), attempt("a", "Failed")) == "a"


def test_one_that_left_none_is_passed_over() -> None:
    assert before(attempt("c"), attempt("b"), attempt("a"), without="cb") == "a"


def test_a_run_with_fresh_starts_a_new_series() -> None:
    fresh = RunRecord.of({**attempt("b").document, "fresh": True})
    assert before(fresh, attempt("a"), without="b") is None
    assert before(fresh, attempt("a")) == "b"


def test_the_newest_attempt_counts() -> None:
    assert before(attempt("b"), attempt("a")) == "b"


def test_other_jobs_and_other_folders_do_not_count() -> None:
    assert before(attempt("c", name="other"), attempt("b", source="/elsewhere"), attempt("a")) == "a"


def test_without_an_attempt_there_is_none() -> None:
    assert before() is None


@pytest.fixture
def paths(tmp_path: Path) -> RunPaths:
    (tmp_path / "new").mkdir()
    return RunPaths(tmp_path / "new")


@pytest.fixture
def left(tmp_path: Path) -> Path:
    folder = tmp_path / "old" / "checkpoints"
    (folder / "deep").mkdir(parents=True)
    (folder / "deep" / "step-1").write_text("1")
    (folder / "step-2").write_text("2")
    return folder


def test_checkpoints_move_and_can_be_given_back(left: Path, paths: RunPaths) -> None:
    assert count_files(left) == 2
    move_checkpoints(left, paths)
    assert (paths.checkpoints / "deep" / "step-1").read_text() == "1"
    assert not left.exists()
    restore_checkpoints(left, paths)
    assert (left / "deep" / "step-1").read_text() == "1"
    assert not paths.checkpoints.exists()


def test_without_an_earlier_attempt_the_folder_is_empty(paths: RunPaths) -> None:
    move_checkpoints(None, paths)
    assert list(paths.checkpoints.iterdir()) == []
    restore_checkpoints(None, paths)
    assert paths.checkpoints.is_dir()


def test_an_attempt_whose_folder_is_gone_left_nothing(tmp_path: Path, paths: RunPaths) -> None:
    assert count_files(tmp_path / "gone") == 0
    move_checkpoints(tmp_path / "gone", paths)
    assert list(paths.checkpoints.iterdir()) == []


def test_what_was_never_taken_is_not_given_back(left: Path, paths: RunPaths) -> None:
    move_checkpoints(None, paths)
    restore_checkpoints(left, paths)
    assert (left / "step-2").exists()
