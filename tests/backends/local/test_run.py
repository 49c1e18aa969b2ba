"""A run as an object: waited for, stopped, its results taken."""

from __future__ import annotations

import io
import json
import os
import shutil
import tarfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gpuproof.agent.paths import RunPaths
from gpuproof.backends.local import backend as backend_module
from gpuproof.backends.local.backend import LocalBackend, LocalRunStore
from gpuproof.backends.local.run import LocalRun
from gpuproof.backends.local.run_folders import RunFolders
from gpuproof.backends.progress import SilentProgress
from gpuproof.errors import GPUproofError, UsageError
from gpuproof.jobs.models.script_jobs import ProcessingJob, TrainingJob

Script = Callable[[str], Path]

FOREVER = "import time\ntime.sleep(600)"


@pytest.fixture
def backend(store: RunFolders, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> LocalBackend:
    monkeypatch.setattr(backend_module, "cache_dir", lambda: tmp_path / "cache")
    return LocalBackend(LocalRunStore(store.root))


def started(backend: LocalBackend, job: TrainingJob | ProcessingJob) -> LocalRun:
    """A run that was planned and submitted."""
    return next(backend.submit(backend.plan(job), SilentProgress()))


@pytest.fixture
def ended(runs) -> RunPaths:
    """The folder of a run that has ended, for the test to fill."""
    paths = runs.make("train-1")
    paths.artifacts.mkdir()
    return paths


def job(script: Path, **keys: Any) -> TrainingJob:
    return TrainingJob(entry_point=script.name, source_dir=str(script.parent), **keys)


def archive(path: Path, **members: bytes) -> None:
    with tarfile.open(path, "w:gz") as tar:
        for name, content in members.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))


@pytest.mark.slow
class TestStopping:
    def test_a_run_that_has_only_just_been_started_stops(self, backend: LocalBackend, script: Script) -> None:
        began = time.monotonic()
        for _ in range(5):
            run = started(backend, job(script(FOREVER)))
            run.stop()
            assert run.wait().status == "Stopped"
        assert time.monotonic() - began < 110, "one was killed, two minutes after SIGTERM"

    def test_at_once_skips_the_grace_period(self, backend: LocalBackend, script: Script) -> None:
        run = started(
            backend, job(script("import signal\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\n" + FOREVER))
        )
        run.stop(at_once=True)
        ended = run.wait()
        assert ended.status == "Stopped"
        assert not any("of SIGTERM and was killed" in note for note in ended.notes)

    def test_a_run_that_has_ended_stays_as_it_is(self, backend: LocalBackend, script: Script) -> None:
        run = started(backend, job(script("")))
        run.wait()
        run.stop()
        assert run.record.status == "Completed"

    def test_waiting_returns_the_last_record(self, backend: LocalBackend, script: Script) -> None:
        record = started(backend, job(script("raise SystemExit(7)"))).wait()
        assert (record.status, record.exit_code) == ("Failed", 7)


def test_stopping_an_agent_that_dies_before_it_listens_ends(store: RunFolders, runs) -> None:
    runs.make_alive("train-1")
    runs.release("train-1")
    LocalRun(store, "train-1").stop()
    assert store.record("train-1").status == "Failed"


class TestPulling:
    def test_archives_verdict_and_logs_are_copied(
        self, store: RunFolders, ended: RunPaths, tmp_path: Path
    ) -> None:
        archive(ended.model_archive, w=b"1")
        archive(ended.output_archive, m=b"2")
        ended.verdict.write_text("{}")
        ended.log().write_bytes(b"said\n")
        made = LocalRun(store, "train-1").pull(tmp_path / "out" / "deep")
        assert [path.name for path in made] == ["model.tar.gz", "output.tar.gz", "verdict.json", "algo-1.log"]
        assert (tmp_path / "out" / "deep" / "model.tar.gz").read_bytes() == ended.model_archive.read_bytes()
        assert (tmp_path / "out" / "deep" / "algo-1.log").read_bytes() == b"said\n"

    def test_archives_are_unpacked_on_request(
        self, store: RunFolders, ended: RunPaths, tmp_path: Path
    ) -> None:
        archive(ended.model_archive, **{"deep/w": b"1"})
        made = LocalRun(store, "train-1").pull(tmp_path / "out", extract=True)
        assert made == [tmp_path / "out" / "model"]
        assert (tmp_path / "out" / "model" / "deep" / "w").read_bytes() == b"1"

    @pytest.mark.parametrize("member", ["../escaped", "/etc/escaped", "a/../../escaped"])
    def test_an_archive_that_leads_out_is_refused_and_nothing_is_written(
        self, store: RunFolders, ended: RunPaths, tmp_path: Path, member: str
    ) -> None:
        archive(ended.model_archive, **{"fine": b"1", member: b"2"})
        with pytest.raises(GPUproofError, match="leads out of the folder") as caught:
            LocalRun(store, "train-1").pull(tmp_path / "out", extract=True)
        assert str(ended.ml) in str(caught.value.remedy)
        assert [path for path in (tmp_path / "out").rglob("*") if path.is_file()] == []
        assert list(tmp_path.rglob("escaped")) == []

    def test_a_run_that_goes_on_is_refused(self, store: RunFolders, runs, tmp_path: Path) -> None:
        runs.make_alive("train-1")
        with pytest.raises(UsageError, match="is still running") as caught:
            LocalRun(store, "train-1").pull(tmp_path / "out")
        assert caught.value.remedy == "gpuproof wait train-1"
        assert not (tmp_path / "out").exists()

    def test_pulling_again_replaces_what_was_pulled(
        self, store: RunFolders, ended: RunPaths, tmp_path: Path
    ) -> None:
        ended.log().write_text("first")
        LocalRun(store, "train-1").pull(tmp_path / "out")
        ended.log().write_text("second")
        LocalRun(store, "train-1").pull(tmp_path / "out")
        assert (tmp_path / "out" / "algo-1.log").read_text() == "second"
        assert os.listdir(tmp_path / "out") == ["algo-1.log"]

    def test_a_file_in_the_way_is_named(self, store: RunFolders, ended: RunPaths, tmp_path: Path) -> None:
        (tmp_path / "out").touch()
        with pytest.raises(
            GPUproofError, match=f"{tmp_path}/out could not be written: File exists"
        ) as caught:
            LocalRun(store, "train-1").pull(tmp_path / "out")
        assert "--to" in str(caught.value.remedy)

    def test_outputs_of_a_processing_job_that_stayed_come_along(
        self, store: RunFolders, ended: RunPaths, tmp_path: Path
    ) -> None:
        for name in ("kept", "sent"):
            (ended.ml / "processing" / name).mkdir(parents=True)
            (ended.ml / "processing" / name / "rows.csv").write_text(name)
        outputs = [
            {"target": "processing/kept", "destination": None},
            {"target": "processing/sent", "destination": "/elsewhere"},
        ]
        ended.job.write_text(json.dumps({"outputs": outputs}))
        made = LocalRun(store, "train-1").pull(tmp_path / "out")
        assert made == [tmp_path / "out" / "kept"]
        assert (tmp_path / "out" / "kept" / "rows.csv").read_text() == "kept"

    @pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount a small disk")
    def test_a_full_disk_is_reported_and_no_partial_file_counts(
        self, store: RunFolders, ended: RunPaths, tmp_path: Path
    ) -> None:
        import subprocess

        ended.model_archive.write_bytes(os.urandom(2_000_000))
        disk = tmp_path / "disk"
        disk.mkdir()
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", disk], check=True)
        try:
            with pytest.raises(GPUproofError, match="No space left on device"):
                LocalRun(store, "train-1").pull(disk)
            assert list(disk.iterdir()) == []
        finally:
            subprocess.run(["umount", "-l", disk], check=True)


@pytest.mark.slow
def test_a_processing_jobs_outputs_can_be_pulled_after_a_real_run(
    backend: LocalBackend, script: Script
) -> None:
    path = script("open('/opt/ml/processing/output/rows.csv', 'w').write('1')")
    run = started(
        backend,
        ProcessingJob(
            entry_point=path.name, source_dir=str(path.parent), outputs={"/opt/ml/processing/output": None}
        ),
    )
    assert run.wait().status == "Completed"
    run.pull(path.parent / "out")
    assert (path.parent / "out" / "output" / "rows.csv").read_text() == "1"
    shutil.rmtree(path.parent / "out")


def test_a_verdict_is_none_until_there_is_one(store: RunFolders, ended: RunPaths) -> None:
    assert LocalRun(store, "train-1").verdict is None
    ended.verdict.write_text('{"outcome": "used"}')
    assert LocalRun(store, "train-1").verdict == {"outcome": "used"}


PEER_IS_GONE = "RuntimeError: [third_party/gloo/gloo/transport/tcp/pair.cc:553] Connection closed by peer [10.77.0.2]:1\n"


@pytest.mark.parametrize(("cause", "explained"), [("own", []), ("peer", ["nccl-remote-error"])])
def test_errors_that_followed_from_a_ranks_own_failure_explain_nothing(
    runs, cause: str, explained: list[str]
) -> None:
    reason = "algo-2, rank 1: ValueError: bad sample"
    paths = runs.make("train-1", status="Failed", failure_reason=reason, failure_cause=cause)
    paths.log("algo-1").write_text(PEER_IS_GONE)
    assert [explanation.code for explanation in LocalRun(runs.store, "train-1").explanations()] == explained
