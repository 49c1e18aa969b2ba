"""Starting a run on this machine."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gpuproof.agent.job import AgentJob
from gpuproof.backends.local import plan as launcher
from gpuproof.backends.local.plan import plan, start
from gpuproof.backends.local.run import LocalRun
from gpuproof.backends.local.s3_inputs.mapping import S3Prefix
from gpuproof.backends.local.store import RunStore
from gpuproof.errors import ExitCode, GPUproofError, GpuRequired, InvalidJob, UsageError
from gpuproof.jobs.spec import ProcessingJob, TrainingJob

Script = Callable[[str], Path]


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    return tmp_path / "cache"


@pytest.fixture
def no_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(launcher, "count_gpus", lambda: 0)


def job(script: Path, **keys: Any) -> TrainingJob:
    return TrainingJob(entry_point=script.name, source_dir=str(script.parent), **keys)


def started(chosen: launcher.LocalPlan, store: RunStore, cache: Path) -> LocalRun:
    """A run to its end."""
    run = LocalRun(store, start(chosen, store, cache).root.name)
    run.wait()
    return run


class TestPlanning:
    def test_nothing_is_made(self, script: Script, tmp_path: Path) -> None:
        before = sorted(tmp_path.rglob("*"))
        plan(job(script("")))
        assert sorted(tmp_path.rglob("*")) == [
            *before,
            tmp_path / "project",
            tmp_path / "project" / "train.py",
        ]

    def test_the_interpreter_is_decided(self, script: Script) -> None:
        assert plan(job(script(""))).python == sys.executable

    @pytest.mark.usefixtures("no_gpu")
    def test_a_required_gpu_must_be_here(self, script: Script) -> None:
        with pytest.raises(GpuRequired, match="this machine has none") as caught:
            plan(job(script(""), require_gpu=True))
        assert caught.value.exit_code == ExitCode.GPU_UNUSED
        assert "--no-require-gpu" in str(caught.value.remedy)

    @pytest.mark.usefixtures("no_gpu")
    def test_a_gpu_that_is_only_asked_for_need_not_be_here(self, script: Script) -> None:
        chosen = plan(job(script(""), instance_type="ml.g5.xlarge"))
        assert (chosen.expected.count, chosen.gpus_here) == (1, 0)

    def test_requiring_a_gpu_of_a_type_without_one_contradicts_itself(self, script: Script) -> None:
        with pytest.raises(InvalidJob, match=r"requires a GPU, and instance_type: ml\.m5\.large has no GPU"):
            plan(job(script(""), require_gpu=True, instance_type="ml.m5.large"))

    def test_an_input_that_is_not_there_is_named(self, script: Script, tmp_path: Path) -> None:
        with pytest.raises(InvalidJob, match=f"Input 'training'.*{tmp_path}/rows") as caught:
            plan(job(script(""), inputs={"training": str(tmp_path / "rows")}))
        assert caught.value.remedy == "--input training=FOLDER"

    def test_an_input_on_s3_is_not_looked_for(self, script: Script) -> None:
        chosen = plan(job(script(""), inputs={"training": "s3://rows/data"}))
        assert chosen.sources == {"training": S3Prefix("rows", "data")}
        assert chosen.remote == chosen.sources

    def test_a_processing_input_on_s3_is_not_looked_for(self, script: Script) -> None:
        path = script("")
        clean = ProcessingJob(
            entry_point=path.name,
            source_dir=str(path.parent),
            inputs={"/opt/ml/processing/input": "s3://rows/data"},
        )
        assert plan(clean).remote == {"/opt/ml/processing/input": S3Prefix("rows", "data")}

    def test_a_linked_input_is_followed(self, script: Script, tmp_path: Path) -> None:
        (tmp_path / "rows").mkdir()
        (tmp_path / "link").symlink_to("rows")
        chosen = plan(job(script(""), inputs={"training": str(tmp_path / "link")}))
        assert chosen.sources == {"training": tmp_path / "rows"}

    def test_inputs_below_the_source_folder_do_not_travel_twice(self, script: Script) -> None:
        path = script("")
        (path.parent / "rows").mkdir()
        (path.parent / "rows" / "a.csv").touch()
        chosen = plan(job(path, inputs={"training": str(path.parent / "rows")}))
        assert [file.relative for file in chosen.tree.files] == ["train.py"]

    def test_what_gpuproof_keeps_below_the_source_folder_does_not_travel(
        self, script: Script, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        path = script("")
        for variable, name in (("GPUPROOF_STATE_DIR", "state"), ("GPUPROOF_CACHE_DIR", "cache")):
            monkeypatch.setenv(variable, str(path.parent / name))
            (path.parent / name).mkdir()
            (path.parent / name / "old").touch()
        assert [file.relative for file in plan(job(path)).tree.files] == ["train.py"]

    def test_what_cannot_run_here_is_refused_before_anything_is_made(self, script: Script) -> None:
        with pytest.raises(InvalidJob, match="2 hosts"):
            plan(job(script(""), instance_count=2))

    def test_an_interpreter_that_is_not_there_is_refused(self, script: Script) -> None:
        with pytest.raises(UsageError, match="--python /nowhere"):
            plan(job(script("")), python="/nowhere")


@pytest.mark.slow
class TestStarting:
    def test_the_run_goes_on_by_itself_and_keeps_its_orders(
        self, script: Script, store: RunStore, cache: Path
    ) -> None:
        path = script("print('hello')")
        run = started(plan(job(path, hyperparameters={"epochs": 2})), store, cache)
        record = run.record
        assert (record.status, record.exit_code) == ("Completed", 0)
        assert run.paths.log().read_text() == "hello\n"
        assert record.document["source_dir"] == str(path.parent)
        assert AgentJob.read(run.paths.job).hyperparameters == {"epochs": 2}

    def test_the_users_folder_and_the_runs_are_apart(
        self, script: Script, store: RunStore, cache: Path
    ) -> None:
        path = script("open('junk', 'w').close()")
        started(plan(job(path)), store, cache)
        assert os.listdir(path.parent) == ["train.py"]

    def test_a_run_is_alive_from_its_first_moment(
        self, script: Script, store: RunStore, cache: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        seen: list[str] = []
        real = launcher.spawn

        def look_first(*words: Any) -> None:
            seen.extend(record.status for record in store.records())
            real(*words)

        monkeypatch.setattr(launcher, "spawn", look_first)
        started(plan(job(script(""))), store, cache)
        assert seen == ["InProgress"]

    def test_checkpoints_of_the_attempt_before_come_along(
        self, script: Script, store: RunStore, cache: Path
    ) -> None:
        path = script("open('/opt/ml/checkpoints/step', 'a').write('x'); raise SystemExit(1)")
        first = started(plan(job(path)), store, cache)
        second = started(plan(job(path)), store, cache)
        assert (second.paths.checkpoints / "step").read_text() == "xx"
        assert not first.paths.checkpoints.exists()
        note = f"/opt/ml/checkpoints begins with 1 checkpoint file of {first.id} (--fresh begins without)"
        assert note in second.record.notes

    def test_a_fresh_run_leaves_them_where_they_are(
        self, script: Script, store: RunStore, cache: Path
    ) -> None:
        path = script("open('/opt/ml/checkpoints/step', 'a').write('x'); raise SystemExit(1)")
        first = started(plan(job(path)), store, cache)
        second = started(plan(job(path), fresh=True), store, cache)
        assert (second.paths.checkpoints / "step").read_text() == "x"
        assert (first.paths.checkpoints / "step").read_text() == "x"

    def test_a_folder_of_the_users_for_checkpoints_is_made(
        self, script: Script, store: RunStore, cache: Path, tmp_path: Path
    ) -> None:
        path = script("open('/opt/ml/checkpoints/step', 'w')")
        run = started(plan(job(path, checkpoint=str(tmp_path / "mine" / "ckpt"))), store, cache)
        assert (tmp_path / "mine" / "ckpt" / "step").exists()
        assert not run.paths.checkpoints.exists()

    def test_an_agent_that_fails_at_once_is_told_from_a_killed_one(
        self, script: Script, store: RunStore, cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        python = tmp_path / "python"
        python.write_text("#!/bin/sh\necho 'no libpython here' >&2\nexit 3\n")
        python.chmod(0o755)
        real = launcher.spawn
        monkeypatch.setattr(launcher, "spawn", lambda *words: real(*words, python=str(python)))
        run = started(plan(job(script(""))), store, cache)
        assert run.record.status == "Failed"
        assert "the agent did not start: no libpython here" in str(run.record.failure_reason)

    def test_an_interpreter_that_cannot_be_executed_fails_the_run_in_words(
        self, script: Script, store: RunStore, cache: Path, tmp_path: Path
    ) -> None:
        python = tmp_path / "python"
        python.write_text("no program at all")
        python.chmod(0o755)
        run = started(plan(job(script("")), python=str(python)), store, cache)
        assert run.record.status == "Failed"
        assert f"{python}: Exec format error" in str(run.record.failure_reason)


class TestNotStarting:
    """Whatever comes in the way, nothing is left and nothing is lost."""

    def nothing_left(self, store: RunStore) -> bool:
        return not store.root.exists() or list(store.root.iterdir()) == []

    def test_a_store_that_cannot_be_written(self, script: Script, cache: Path, tmp_path: Path) -> None:
        (tmp_path / "file").touch()
        with pytest.raises(GPUproofError, match="could not be started: Not a directory") as caught:
            start(plan(job(script(""))), RunStore(tmp_path / "file" / "runs"), cache)
        assert "GPUPROOF_STATE_DIR" in str(caught.value.remedy)

    def test_a_cache_that_cannot_be_written(self, script: Script, store: RunStore, tmp_path: Path) -> None:
        (tmp_path / "file").touch()
        with pytest.raises(GPUproofError, match="could not be started: Not a directory"):
            start(plan(job(script(""))), store, tmp_path / "file" / "cache")
        assert self.nothing_left(store)

    def test_a_source_that_vanished_since_it_was_planned(
        self, script: Script, store: RunStore, cache: Path
    ) -> None:
        path = script("")
        chosen = plan(job(path))
        path.unlink()
        with pytest.raises(GPUproofError, match="No such file"):
            start(chosen, store, cache)
        assert self.nothing_left(store)

    @pytest.mark.parametrize("fault", [OSError(28, "No space left on device"), KeyboardInterrupt()])
    def test_checkpoints_of_the_attempt_before_are_not_lost(
        self,
        script: Script,
        store: RunStore,
        cache: Path,
        runs,
        monkeypatch: pytest.MonkeyPatch,
        fault: BaseException,
    ) -> None:
        path = script("")
        earlier = runs.make("train-1", status="Failed", source_dir=str(path.parent))
        earlier.checkpoints.mkdir()
        (earlier.checkpoints / "step").write_text("a week of work")

        def fail(*_: object) -> None:
            raise fault

        monkeypatch.setattr(launcher, "spawn", fail)
        with pytest.raises((GPUproofError, KeyboardInterrupt)):
            start(plan(job(path)), store, cache)
        assert (earlier.checkpoints / "step").read_text() == "a week of work"
        assert [record.id for record in store.records()] == ["train-1"]


def test_a_run_outlives_an_emptied_cache(
    tmp_path: Path, store: RunStore, cache: Path, script: Script
) -> None:
    go = tmp_path / "go"
    path = script(
        f"import os, time\nwhile not os.path.exists({str(go)!r}): time.sleep(0.02)\nopen('/opt/ml/model/w', 'w').close()"
    )
    run = LocalRun(store, start(plan(job(path)), store, cache).root.name)
    shutil.rmtree(cache)
    go.touch()
    assert run.wait().status == "Completed"
    assert run.paths.model_archive.exists()
