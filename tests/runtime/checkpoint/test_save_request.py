"""The agent asks for a checkpoint: at once, then as often as saving does not cost much, by all processes together."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import gpuproof.runtime as rt
from gpuproof.runtime.checkpoint import save_request
from gpuproof.runtime.checkpoint.save_request import REQUEST_FILE, SaveRequest
from gpuproof.runtime.checkpoint.sigterm import Decision, decide
from support.runtime_script import Script


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file of the agent, which does not exist yet."""
    monkeypatch.setenv("SAGEMAKER_BASE_DIR", str(tmp_path / "ml"))
    path = tmp_path / "ml" / REQUEST_FILE
    path.parent.mkdir(parents=True)
    return path


def test_without_a_request_nothing_is_due(file: Path) -> None:
    request = SaveRequest(file, lambda: 1e9)
    request.record_save(1.0)
    assert not request.is_due()


def test_a_request_is_due_at_once_and_then_every_minute(file: Path) -> None:
    now = [100.0]
    request = SaveRequest(file, lambda: now[0])
    request.record_save(0.1)
    file.touch()
    assert request.is_due()
    request.record_save(0.1)
    now[0] += 59
    assert not request.is_due()
    now[0] += 1
    assert request.is_due()


def test_a_slow_save_is_repeated_less_often(file: Path) -> None:
    now = [100.0]
    request = SaveRequest(file, lambda: now[0])
    file.touch()
    request.record_save(30.0)
    now[0] += 599
    assert not request.is_due()
    now[0] += 1
    assert request.is_due()


def test_training_saves_at_the_end_of_the_step_and_goes_on(file: Path, tmp_path: Path) -> None:
    kept = rt.checkpoint(state={}, folder=tmp_path / "kept", every_steps=1000)
    saved: list[int] = []
    for step in kept.steps(range(5)):
        if step == 2:
            file.touch()
        saved.append(len(list((tmp_path / "kept").iterdir())))
    assert saved == [0, 0, 0, 1, 1]
    manifest = json.loads(next((tmp_path / "kept").glob("*/checkpoint.json")).read_text())
    assert manifest["progress"]["step"] == 3


def test_a_script_that_saves_by_itself_is_asked_once(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(save_request, "_requests", [])
    assert not rt.checkpoint_requested()
    file.touch()
    assert rt.checkpoint_requested()
    assert not rt.checkpoint_requested()


def test_tensorflows_workers_that_cannot_agree_ignore_a_request(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that saves alone would wait for the others for ever."""
    assert decide(1, at_epoch_end=False, save_requested=True) == Decision(stop=False, save=True)
    cluster = {"worker": ["algo-1:1", "algo-2:1"]}
    monkeypatch.setenv("TF_CONFIG", json.dumps({"cluster": cluster, "task": {"type": "worker", "index": 0}}))
    assert decide(1, at_epoch_end=True, save_requested=True) == Decision(stop=False, save=False)


TWO = """
import os, sys
import torch, torch.multiprocessing as multiprocessing
import gpuproof.runtime as rt
from gpuproof.runtime.checkpoint.save_request import REQUEST_FILE

def train(rank):
    os.environ["SAGEMAKER_BASE_DIR"] = base = f"ml-{rank}"
    path = os.path.join(base, REQUEST_FILE)
    os.makedirs(os.path.dirname(path))
    torch.distributed.init_process_group("gloo", init_method=f"file://{os.getcwd()}/store", rank=rank, world_size=2)
    kept = rt.checkpoint(state={}, folder="kept", every_steps=1000)
    for step in kept.steps(range(25)):
        if rank == 1 and step == 12:
            open(path, "w").close()
    torch.distributed.destroy_process_group()

if __name__ == "__main__":
    multiprocessing.spawn(train, nprocs=2)
"""


@pytest.mark.slow
def test_the_request_to_one_process_reaches_all(script: Script) -> None:
    pytest.importorskip("torch")
    script(TWO, OMP_NUM_THREADS="1")
    (manifest,) = (script.folder / "kept").glob("*/checkpoint.json")
    assert json.loads(manifest.read_text())["progress"]["step"] == 20
