"""Starting a run on this machine."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gpuproof.agent.job import AgentJob
from gpuproof.backends.local import submit
from gpuproof.backends.local.plan import LocalPlan, plan_run
from gpuproof.backends.local.run import LocalRun
from gpuproof.backends.local.run_folders import RunFolders
from gpuproof.backends.local.submit import start_run
from gpuproof.errors import GPUproofError
from gpuproof.jobs.models.script_jobs import TrainingJob
from gpuproof.jobs.source.digests import folder_digest, tree_digest
from gpuproof.version import __version__

Script = Callable[[str], Path]


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    return tmp_path / "cache"


def job(script: Path, **keys: Any) -> TrainingJob:
    return TrainingJob(entry_point=script.name, source_dir=str(script.parent), **keys)


def started(planned: LocalPlan, store: RunFolders, cache: Path) -> LocalRun:
    """A run to its end."""
    run = LocalRun(store, start_run(planned, store, cache).root.name)
    run.wait()
    return run


@pytest.mark.slow
class TestStarting:
    def test_the_run_goes_on_by_itself_and_keeps_its_orders(
        self, script: Script, store: RunFolders, cache: Path
    ) -> None:
        path = script("print('hello')")
        run = started(plan_run(job(path, hyperparameters={"epochs": 2})), store, cache)
        record = run.record
        assert (record.status, record.exit_code) == ("Completed", 0)
        assert run.paths.log().read_text() == "hello\n"
        assert record.document["source_dir"] == str(path.parent)
        assert AgentJob.read(run.paths.job).hyperparameters == {"epochs": 2}

    def test_the_record_says_what_the_run_was_made_of(
        self, script: Script, store: RunFolders, cache: Path, tmp_path: Path
    ) -> None:
        path = script("print('hello')")
        (tmp_path / "data").mkdir()
        (tmp_path / "data" / "x.csv").write_text("1,2\n")
        planned = plan_run(job(path, inputs={"training": str(tmp_path / "data")}))
        found = started(planned, store, cache).record.document["provenance"]
        assert found["code"] == tree_digest(planned.tree).to_json()
        assert found["inputs"] == {"training": folder_digest(tmp_path / "data").to_json()}
        assert found["git"] is None
        assert found["gpuproof"] == __version__

    def test_the_users_folder_and_the_runs_are_apart(
        self, script: Script, store: RunFolders, cache: Path
    ) -> None:
        path = script("open('junk', 'w').close()")
        started(plan_run(job(path)), store, cache)
        assert os.listdir(path.parent) == ["train.py"]

    def test_a_run_is_alive_from_its_first_moment(
        self, script: Script, store: RunFolders, cache: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        seen: list[str] = []
        real = submit.start_agent

        def look_first(*words: Any, **options: Any) -> None:
            seen.extend(record.status for record in store.records())
            real(*words, **options)

        monkeypatch.setattr(submit, "start_agent", look_first)
        started(plan_run(job(script(""))), store, cache)
        assert seen == ["InProgress"]

    def test_checkpoints_of_the_attempt_before_come_along(
        self, script: Script, store: RunFolders, cache: Path
    ) -> None:
        path = script("open('/opt/ml/checkpoints/step', 'a').write('x'); raise SystemExit(1)")
        first = started(plan_run(job(path)), store, cache)
        second = started(plan_run(job(path)), store, cache)
        assert (second.paths.checkpoints / "step").read_text() == "xx"
        assert not first.paths.checkpoints.exists()
        note = f"/opt/ml/checkpoints starts with 1 checkpoint file of {first.id} (--fresh starts without)"
        assert note in second.record.notes

    def test_a_fresh_run_leaves_them_where_they_are(
        self, script: Script, store: RunFolders, cache: Path
    ) -> None:
        path = script("open('/opt/ml/checkpoints/step', 'a').write('x'); raise SystemExit(1)")
        first = started(plan_run(job(path)), store, cache)
        second = started(plan_run(job(path), fresh=True), store, cache)
        assert (second.paths.checkpoints / "step").read_text() == "x"
        assert (first.paths.checkpoints / "step").read_text() == "x"

    def test_a_folder_of_the_users_for_checkpoints_is_made(
        self, script: Script, store: RunFolders, cache: Path, tmp_path: Path
    ) -> None:
        path = script("open('/opt/ml/checkpoints/step', 'w')")
        run = started(plan_run(job(path, checkpoint=str(tmp_path / "mine" / "ckpt"))), store, cache)
        assert (tmp_path / "mine" / "ckpt" / "step").exists()
        assert not run.paths.checkpoints.exists()

    def test_an_agent_that_fails_at_once_is_distinguished_from_a_killed_one(
        self, script: Script, store: RunFolders, cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        python = tmp_path / "python"
        python.write_text("#!/bin/sh\necho 'no libpython here' >&2\nexit 3\n")
        python.chmod(0o755)
        real = submit.start_agent
        monkeypatch.setattr(submit, "start_agent", lambda *words, **_: real(*words, python=str(python)))
        run = started(plan_run(job(script(""))), store, cache)
        assert run.record.status == "Failed"
        assert "the agent did not start: no libpython here" in str(run.record.failure_reason)

    def test_an_interpreter_that_cannot_be_executed_fails_the_run_in_words(
        self, script: Script, store: RunFolders, cache: Path, tmp_path: Path
    ) -> None:
        python = tmp_path / "python"
        python.write_text("no program at all")
        python.chmod(0o755)
        run = started(plan_run(job(script("")), python=str(python)), store, cache)
        assert run.record.status == "Failed"
        assert f"{python}: Exec format error" in str(run.record.failure_reason)


class TestNotStarting:
    """Whatever comes in the way, nothing is left and nothing is lost."""

    def nothing_left(self, store: RunFolders) -> bool:
        return not store.root.exists() or list(store.root.iterdir()) == []

    def test_a_store_that_cannot_be_written(self, script: Script, cache: Path, tmp_path: Path) -> None:
        (tmp_path / "file").touch()
        with pytest.raises(GPUproofError, match="could not be started: Not a directory") as caught:
            start_run(plan_run(job(script(""))), RunFolders(tmp_path / "file" / "runs"), cache)
        assert "GPUPROOF_STATE_DIR" in str(caught.value.remedy)

    def test_a_cache_that_cannot_be_written(self, script: Script, store: RunFolders, tmp_path: Path) -> None:
        (tmp_path / "file").touch()
        with pytest.raises(GPUproofError, match="could not be started: Not a directory"):
            start_run(plan_run(job(script(""))), store, tmp_path / "file" / "cache")
        assert self.nothing_left(store)

    def test_a_source_that_vanished_since_it_was_planned(
        self, script: Script, store: RunFolders, cache: Path
    ) -> None:
        path = script("")
        planned = plan_run(job(path))
        path.unlink()
        with pytest.raises(GPUproofError, match="No such file"):
            start_run(planned, store, cache)
        assert self.nothing_left(store)

    @pytest.mark.parametrize("fault", [OSError(28, "No space left on device"), KeyboardInterrupt()])
    def test_checkpoints_of_the_attempt_before_are_not_lost(
        self,
        script: Script,
        store: RunFolders,
        cache: Path,
        runs,
        monkeypatch: pytest.MonkeyPatch,
        fault: BaseException,
    ) -> None:
        path = script("")
        earlier = runs.make("train-1", status="Failed", source_dir=str(path.parent))
        earlier.checkpoints.mkdir()
        (earlier.checkpoints / "step").write_text("a week of work")

        def fail(*_: object, **__: object) -> None:
            raise fault

        monkeypatch.setattr(submit, "start_agent", fail)
        with pytest.raises((GPUproofError, KeyboardInterrupt)):
            start_run(plan_run(job(path)), store, cache)
        assert (earlier.checkpoints / "step").read_text() == "a week of work"
        assert [record.id for record in store.records()] == ["train-1"]


def test_a_run_outlives_an_emptied_cache(
    tmp_path: Path, store: RunFolders, cache: Path, script: Script
) -> None:
    go = tmp_path / "go"
    path = script(
        f"import os, time\nwhile not os.path.exists({str(go)!r}): time.sleep(0.02)\nopen('/opt/ml/model/w', 'w').close()"
    )
    run = LocalRun(store, start_run(plan_run(job(path)), store, cache).root.name)
    shutil.rmtree(cache)
    go.touch()
    assert run.wait().status == "Completed"
    assert run.paths.model_archive.exists()
