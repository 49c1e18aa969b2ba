"""The folder of runs: found, listed, settled, removed."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from gpuproof.agent.state import read_state
from gpuproof.backends.local.run_folders import RunFolders, agent_alive
from gpuproof.errors import ExitCode, RunNotFound, UsageError


def ids(store: RunFolders) -> list[str]:
    return [record.id for record in store.records()]


def test_a_new_runs_id_is_the_jobs_name_the_time_and_something_unique(store: RunFolders) -> None:
    made = {store.create("train").root.name for _ in range(50)}
    assert len(made) == 50
    assert all(re.fullmatch(r"train-20\d{6}-\d{6}-[0-9a-f]{4}", name) for name in made)


def test_an_id_keeps_sagemakers_limit(store: RunFolders) -> None:
    name = store.create("x" * 63).root.name
    assert len(name) == 63
    assert "--" not in store.create("a" * 41 + "-" + "b" * 21).root.name


def test_a_new_runs_folder_is_its_owners_alone(store: RunFolders) -> None:
    assert store.create("train").root.stat().st_mode & 0o777 == 0o700


def test_a_store_that_is_not_there_yet_holds_no_runs(store: RunFolders) -> None:
    assert ids(store) == []


def test_the_newest_comes_first(store: RunFolders, runs) -> None:
    for name in ("train-1", "other-2", "train-3"):
        runs.make(name)
    assert ids(store) == ["train-3", "other-2", "train-1"]


@pytest.mark.slow
def test_a_thousand_runs_are_listed_at_once(store: RunFolders, runs) -> None:
    for number in range(1000):
        runs.make(f"train-{number}")
    began = time.process_time()
    assert len(ids(store)) == 1000
    assert time.process_time() - began < 10.0


@pytest.mark.parametrize(
    "content", [None, "", "{", "[]", '"text"', "{}", '{"created": 1}', '{"created": "now", "status": "x"}']
)
def test_a_half_written_folder_is_passed_over(store: RunFolders, runs, content: str | None) -> None:
    runs.make("train-1")
    half = store.paths("half-2")
    half.root.mkdir()
    if content is not None:
        half.run.write_text(content)
    assert ids(store) == ["train-1"]
    with pytest.raises(RunNotFound):
        store.record("half-2")


def test_a_stray_file_among_the_runs_is_passed_over(store: RunFolders, runs) -> None:
    runs.make("train-1")
    (store.root / "notes.txt").write_text("mine")
    assert ids(store) == ["train-1"]


def test_a_folder_that_was_renamed_is_known_by_its_name(store: RunFolders, runs) -> None:
    runs.make("train-1").root.rename(store.root / "best")
    assert ids(store) == ["best"]
    assert store.find("best").job_name == "train"


class TestFinding:
    @pytest.fixture(autouse=True)
    def _runs(self, runs) -> None:
        for name in ("train-20260101-aaaa", "train-20260102-bbbb", "clean-20260103-cccc"):
            runs.make(name)

    @pytest.mark.parametrize(
        ("name", "found"),
        [
            ("train-20260101-aaaa", "train-20260101-aaaa"),
            ("train-20260101", "train-20260101-aaaa"),
            ("bbbb", "train-20260102-bbbb"),
            ("train", "train-20260102-bbbb"),
            ("clean", "clean-20260103-cccc"),
            ("cl", "clean-20260103-cccc"),
            (None, "clean-20260103-cccc"),
        ],
        ids=["id", "beginning", "end", "newest of a name", "name", "beginning of a name", "newest"],
    )
    def test_by_whatever_a_person_types(self, store: RunFolders, name: str | None, found: str) -> None:
        assert store.find(name).id == found

    def test_an_ambiguous_prefix_lists_its_matches(self, store: RunFolders) -> None:
        with pytest.raises(RunNotFound, match=r"matches 2 runs: train-20260102-bbbb, train-20260101-aaaa"):
            store.find("train-2026")

    @pytest.mark.parametrize("name", ["nothing", "../runs/train-20260101-aaaa", ".", "..", "a/b", "tr*", ""])
    def test_a_name_without_a_match_is_reported(self, store: RunFolders, name: str) -> None:
        with pytest.raises(RunNotFound) as caught:
            store.find(name)
        assert caught.value.exit_code == ExitCode.USAGE
        assert caught.value.remedy


def test_without_any_runs_the_command_to_start_one_is_shown(store: RunFolders) -> None:
    with pytest.raises(RunNotFound, match="no runs") as caught:
        store.find(None)
    assert "gpuproof run" in str(caught.value.remedy)


def test_a_long_list_of_what_may_be_meant_is_cut(store: RunFolders, runs) -> None:
    for number in range(9):
        runs.make(f"train-{number}")
    with pytest.raises(RunNotFound, match=r"matches 9 runs: .*train-4 …"):
        store.find("trai")


class TestSettling:
    def test_a_run_whose_agent_lives_goes_on(self, store: RunFolders, runs) -> None:
        paths = runs.make_alive("train-1")
        assert agent_alive(paths)
        assert store.record("train-1").status == "InProgress"

    def test_a_run_whose_agent_is_gone_has_failed_and_it_is_written_down(
        self, store: RunFolders, runs
    ) -> None:
        paths = runs.make_alive("train-1", agent_pid=1)
        runs.release("train-1")
        record = store.record("train-1")
        assert record.status == "Failed"
        assert record.failure_reason == "the agent was killed, and the script with it"
        assert read_state(paths.run) == dict(record.document)

    def test_its_end_is_the_last_sign_of_life(self, store: RunFolders, runs) -> None:
        paths = runs.make_alive("train-1", agent_pid=1)
        paths.log().write_text("epoch 1")
        os.utime(paths.log(), (5e9, 5e9))
        runs.release("train-1")
        assert store.record("train-1").ended == 5e9

    def test_an_agent_that_never_started_reports_why(self, store: RunFolders, runs) -> None:
        paths = runs.make_alive("train-1")
        paths.agent_log.write_text("Traceback\nImportError: no module\n\n")
        runs.release("train-1")
        record = store.record("train-1")
        reason = record.failure_reason
        assert record.status_text == "Failed (never launched)"
        assert reason == f"the agent did not start: ImportError: no module (see {paths.agent_log})"

    @pytest.mark.parametrize("status", ["Completed", "Failed", "Stopped"])
    def test_a_final_state_does_not_change(self, store: RunFolders, runs, status: str) -> None:
        runs.make("train-1", status=status)
        assert store.record("train-1").status == status

    def test_a_run_that_cannot_be_written_is_settled_all_the_same(self, store: RunFolders, runs) -> None:
        paths = runs.make_alive("train-1", agent_pid=1)
        runs.release("train-1")
        # Where the temporary file would be, something else is.
        (paths.root / f".run.json.{os.getpid()}").mkdir()
        assert store.record("train-1").status == "Failed"

    def test_concurrent_liveness_checks_do_not_block_each_other(self, runs) -> None:
        paths = runs.make("train-1")
        paths.lock.touch()
        answers: list[bool] = []
        threads = [
            threading.Thread(target=lambda: answers.extend(agent_alive(paths) for _ in range(200)))
            for _ in range(4)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not any(answers)


class TestRemoving:
    def test_all_of_it_goes(self, store: RunFolders, runs) -> None:
        paths = runs.make("train-1")
        store.remove(store.record("train-1"))
        assert not paths.root.exists()
        assert list(store.root.iterdir()) == []

    def test_a_run_that_goes_on_is_refused(self, store: RunFolders, runs) -> None:
        runs.make_alive("train-1")
        with pytest.raises(UsageError, match="is still running") as caught:
            store.remove(store.record("train-1"))
        assert caught.value.remedy == "gpuproof stop train-1"
        assert ids(store) == ["train-1"]

    def test_links_are_removed_and_what_they_lead_to_is_not(
        self, store: RunFolders, runs, tmp_path: Path
    ) -> None:
        (tmp_path / "data").mkdir(mode=0o750)
        (tmp_path / "data" / "rows").write_text("1")
        (runs.make("train-1").root / "link").symlink_to(tmp_path / "data")
        store.remove(store.record("train-1"))
        assert (tmp_path / "data" / "rows").read_text() == "1"
        assert (tmp_path / "data").stat().st_mode & 0o777 == 0o750

    def test_remains_of_an_interrupted_removal_are_not_a_run_and_are_removed_next(
        self, store: RunFolders, runs
    ) -> None:
        runs.make("train-1").root.rename(store.root / ".train-1.removed")
        runs.make("train-2")
        assert ids(store) == ["train-2"]
        store.remove(store.record("train-2"))
        assert list(store.root.iterdir()) == []

    def test_a_plain_user_removes_what_a_script_locked(self, store: RunFolders, runs, tmp_path: Path) -> None:
        paths = runs.make("train-1")
        locked = paths.ml / "model" / "deep"
        locked.mkdir(parents=True)
        (locked / "w").write_text("w")
        (locked / "w").chmod(0)
        locked.chmod(0)
        (paths.ml / "model").chmod(0o500)
        paths.root.chmod(0o500)
        done = as_plain_user(
            f"from pathlib import Path; from gpuproof.backends.local.run_folders import RunFolders\n"
            f"store = RunFolders(Path({str(store.root)!r})); store.remove(store.record('train-1'))"
        )
        assert done.returncode == 0, done.stderr
        assert list(store.root.iterdir()) == []

    @pytest.mark.skipif(os.geteuid() != 0, reason="only root can leave files of another user")
    def test_files_of_another_user_are_reported_and_the_run_is_no_longer_listed(
        self, store: RunFolders, runs
    ) -> None:
        theirs = runs.make("train-1").root / "theirs"
        theirs.mkdir()
        (theirs / "file").touch()
        os.chown(theirs, 12345, 12345)
        done = as_plain_user(
            f"from pathlib import Path; from gpuproof.backends.local.run_folders import RunFolders; from gpuproof.errors import GPUproofError\n"
            f"store = RunFolders(Path({str(store.root)!r}))\n"
            "try: store.remove(store.record('train-1'))\n"
            "except GPUproofError as error: print(error.message, '|', error.remedy)"
        )
        assert "train-1 could not be removed completely" in done.stdout, done.stderr
        assert "sudo rm -r" in done.stdout
        assert ids(store) == []


def as_plain_user(code: str) -> subprocess.CompletedProcess[str]:
    """Run Python as the same user without root's privileges over files."""
    words = [sys.executable, "-c", code]
    if os.geteuid() == 0:
        words = ["unshare", "--user", "--map-user=1000", "--map-group=1000", *words]
    return subprocess.run(words, capture_output=True, text=True)
