"""Running a job from Python."""

from __future__ import annotations

import io
from collections.abc import Iterator
from pathlib import Path

import pytest

import gpuproof
from gpuproof import settings
from gpuproof.backends.local.store import local_run_store
from gpuproof.errors import UsageError


@pytest.fixture(autouse=True)
def _own_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("GPUPROOF_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.setenv("GPUPROOF_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    settings._made.cache_clear()
    yield
    settings._made.cache_clear()


def test_an_unknown_backend_is_named() -> None:
    with pytest.raises(UsageError, match="Unknown backend 'mars'"):
        gpuproof.run(gpuproof.TrainingJob(entry_point="train.py"), on="mars")


@pytest.mark.slow
def test_a_job_runs_and_its_output_can_be_caught(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("print('hello')\nopen('/opt/ml/model/w', 'w').write('w')")
    logs = io.BytesIO()
    run = gpuproof.run(gpuproof.TrainingJob(entry_point="train.py"), logs=logs)
    assert logs.getvalue() == b"hello\n"
    assert run.record.status == "Completed"
    assert run.verdict is not None
    assert run.paths.model_archive.exists()


@pytest.mark.slow
def test_without_waiting_the_run_goes_on(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("import time\ntime.sleep(600)")
    run = gpuproof.run(gpuproof.TrainingJob(entry_point="train.py"), wait=False)
    assert not run.record.has_ended
    run.stop(at_once=True)
    assert run.wait().status == "Stopped"


@pytest.mark.slow
def test_an_interrupt_stops_the_run_before_it_is_passed_on(tmp_path: Path) -> None:
    class Impatient(io.BytesIO):
        def write(self, *_: object) -> int:
            raise KeyboardInterrupt

    (tmp_path / "train.py").write_text("import time\nprint('ready', flush=True)\ntime.sleep(600)")
    with pytest.raises(KeyboardInterrupt):
        gpuproof.run(gpuproof.TrainingJob(entry_point="train.py"), logs=Impatient())
    (record,) = local_run_store().records()
    assert record.status == "Stopped"
