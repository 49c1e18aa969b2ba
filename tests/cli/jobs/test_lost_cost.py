"""`gpuproof show` says what the bottleneck of a run has cost."""

import json
from pathlib import Path

import pytest

from gpuproof.agent.verdict import NO_GPU_EXPECTED, Bottleneck, Verdict
from gpuproof.cli.main import main

HEAD = "input wait 41%"
WHY = "DataLoader at train.py:38 has 0 workers; the instance has 8 vCPUs."


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A run that has ended, with a cost, which runs on this machine do not have."""
    monkeypatch.setenv("GPUPROOF_STATE_DIR", str(tmp_path))
    folder = tmp_path / "runs" / "train-1"
    folder.mkdir(parents=True)
    limit = Bottleneck("input", f"{HEAD}: {WHY}", {"share": 0.41, "seconds": 410.0}, head=HEAD)
    (folder / "verdict.json").write_text(
        json.dumps(Verdict(NO_GPU_EXPECTED, "CPU.", bottlenecks=(limit,)).to_json())
    )
    state = {
        "version": 1,
        "id": "train-1",
        "job_name": "train",
        "kind": "training",
        "backend": "local",
        "status": "Completed",
        "created": 1000.0,
        "source_dir": "/project",
        "billed_seconds": 1000.0,
        "cost_usd": 7.56,
    }
    (folder / "run.json").write_text(json.dumps(state))
    return "train-1"


def test_the_text_has_it_behind_the_share(run: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["show", run]) == 0
    assert f"{HEAD}, $3.10 of $7.56: {WHY}" in " ".join(capsys.readouterr().out.split())


def test_the_json_has_it_among_the_numbers(run: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["show", run, "--format", "json"]) == 0
    (limit,) = json.loads(capsys.readouterr().out)["verdict"]["bottlenecks"]
    assert (limit["numbers"]["usd"], limit["numbers"]["run_usd"]) == (pytest.approx(3.0996), 7.56)
