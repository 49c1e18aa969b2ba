"""The advice on runs that are on this machine."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gpuproof.agent.verdict import Expectation, Throughput, Verdict, judge
from gpuproof.backends.advice.report import Advice, advise
from gpuproof.backends.record import RunRecord
from gpuproof.backends.registry import load_backend
from support.gpu_timelines import JOB, cpu, gpu, watched

BUSY = gpu(90, mib=8000, pids={JOB: 7900})

Make = Callable[..., None]


@pytest.fixture
def make(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Make:
    """Makes a run that has ended, newer than the one before."""
    monkeypatch.setenv("GPUPROOF_STATE_DIR", str(tmp_path))
    created = iter(range(1000, 2000))

    def make(run_id: str, gpus: int, rate: float | None, **more: Any) -> None:
        folder = tmp_path / "runs" / run_id
        folder.mkdir(parents=True)
        found: Verdict = judge(Expectation(gpus, required=True), watched(60, *[BUSY] * gpus))
        found = replace(found, throughput=None if rate is None else Throughput(rate, 6000, 60.0))
        state = {
            "id": run_id,
            "job_name": "train",
            "kind": "training",
            "backend": "local",
            "status": "Completed",
        }
        state |= {"version": 1, "created": next(created), "source_dir": "/project", **more}
        (folder / "run.json").write_text(json.dumps(state))
        (folder / "verdict.json").write_text(json.dumps(found.to_json()))

    return make


def advice(run_id: str) -> Advice:
    runs = load_backend("local").open().runs()
    record = runs.find(run_id)
    return advise(runs.run(record), record)


def test_a_run_is_compared_with_the_newest_completed_run_of_its_job_on_the_fewest_gpus(make: Make) -> None:
    make("old", 1, 50)
    make("one", 1, 100)
    make("failed", 1, 1, status="Failed")
    make("other", 1, 10, job_name="other")
    make("two", 2, 180)
    make("eight", 8, 696)
    make("later", 1, 1)
    assert list(advice("eight").lines()) == [
        ("scaling", "scaling efficiency 87% (8 GPUs, compared with one on 1 GPU)")
    ]
    assert advice("eight").to_json()["scaling"]["efficiency"] == 0.87


def test_most_runs_have_no_advice(make: Make) -> None:
    make("one", 1, 100)
    make("silent", 2, None)
    make("running", 2, 150, status="InProgress")
    for run_id in ("one", "silent"):
        assert advice(run_id) == Advice()
        assert advice(run_id).to_json() == {}


class EndedRun:
    """A run of which only the verdict is needed."""

    def __init__(self, verdict: Verdict) -> None:
        self.verdict = verdict.to_json()


def on_sagemaker(seconds: float = 600, **more: Any) -> Advice:
    """The advice on a run on SageMaker, of whose four GPUs one worked."""
    verdict = judge(Expectation(4), watched(seconds, BUSY, gpu(), gpu(), gpu(), cpu=cpu(1.0)))
    document = {
        "id": "train-1",
        "job_name": "train",
        "kind": "training",
        "backend": "sagemaker",
        "region": "us-east-1",
    }
    document |= {"status": "Completed", "created": 1.0, "instance_type": "ml.g5.12xlarge", **more}
    run: Any = EndedRun(verdict)
    return advise(run, RunRecord.of(document))


def test_idle_gpus_that_are_billed_have_a_cheaper_alternative() -> None:
    found = on_sagemaker()
    lines = dict(found.lines())
    assert list(lines) == ["advice", "carbon"]
    text = lines["advice"]
    assert text.split(":")[0] == "1 of 4 GPUs worked"
    assert found.to_json()["advice"]["instance_type"] == "ml.g5.xlarge"
    assert found.to_json()["advice"]["text"] == text


@pytest.mark.parametrize(
    "more",
    [
        {"spot": True},
        {"instance_type": None},
        {"region": "xx-nowhere-1"},
        {"instance_count": 2},
        {"status": "InProgress"},
        {"seconds": 60},
    ],
)
def test_there_is_no_alternative_where_prices_or_measurements_do_not_tell(more: dict[str, Any]) -> None:
    assert on_sagemaker(**more).rightsizing is None
