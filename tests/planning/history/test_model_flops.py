"""FLOPs of a traced step that the model needs, and which of them a run is given."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gpuproof.agent.job import AgentJob, PlannedFlops
from gpuproof.backends.agent_job.document import job_document
from gpuproof.jobs.models.script_jobs import TrainingJob
from gpuproof.planning.history.plan_entry import model_flops
from gpuproof.planning.history.runs import planned_flops
from gpuproof.planning.history.script_key import script_key
from gpuproof.planning.history.store import PLAN, HistoryStore
from gpuproof.trace.document import GEMM, Memory, Operator, Trace
from gpuproof.util.atomic import write_json


def operator(phase: str, flops: float, calls: int = 1, kind: str = GEMM) -> Operator:
    return Operator("aten.mm", kind, "float32", phase, flops, 0.0, 1, (), calls)


TRACE = Trace(
    "torch",
    "2.13.0",
    "training",
    3,
    [operator("forward", 10.0, 2), operator("backward", 15.0, 2), operator("optimizer", 7.0, 1, "optimizer")],
    Memory([], []),
    0,
    100,
    100,
    400,
)


def test_products_of_both_passes_count_and_the_optimizer_does_not():
    assert model_flops(TRACE, 1) == 50


def test_what_checkpointing_computes_again_does_not_count():
    again = replace(
        TRACE, checkpointing=True, operators=[operator("forward", 20.0), operator("backward", 60.0)]
    )
    assert model_flops(again, 1) == 60
    assert model_flops(replace(again, trainable=10), 1) is None


def test_one_process_for_several_gpus_is_not_counted():
    for strategy in ("data-parallel", "mirrored"):
        assert model_flops(replace(TRACE, strategy=strategy), 2) is None
        assert model_flops(replace(TRACE, strategy=strategy), 1) == 50
    assert model_flops(replace(TRACE, strategy="ddp"), 2) == 50


def test_a_step_without_products_has_none():
    assert model_flops(replace(TRACE, operators=[operator("forward", 5.0, 1, "elementwise")]), 1) is None


def stored(tmp_path: Path, **changes: Any) -> tuple[HistoryStore, TrainingJob]:
    """A plan of a script with a learning rate, and a job with the same."""
    script = tmp_path / "train.py"
    script.write_text("pass\n")
    store = HistoryStore(tmp_path / "history.jsonl")
    entry = {
        "key": script_key(script, ["--lr", "0.1"]),
        "script": "train.py",
        "created": 1.0,
        "framework": "torch",
        "precision": "amp-bfloat16",
        "batch": 8,
        "examples": 32,
        "gpus": 1,
        "model_flops": 5e12,
        "estimates": {},
    }
    store.append(PLAN, entry | changes)
    job = TrainingJob(entry_point="train.py", source_dir=str(tmp_path), hyperparameters={"lr": 0.1})
    return store, job


def test_a_planned_script_runs_with_the_flops_of_its_step(tmp_path: Path):
    store, job = stored(tmp_path)
    assert planned_flops(store, job) == PlannedFlops(5e12, 32, 1, "amp-bfloat16")


def test_float32_of_tensorflow_is_tf32(tmp_path: Path):
    store, job = stored(tmp_path, framework="tensorflow", precision="float32")
    found = planned_flops(store, job)
    assert found is not None
    assert found.precision == "tf32"


def test_other_arguments_changed_code_and_plans_without_flops_have_none(tmp_path: Path):
    store, job = stored(tmp_path)
    assert planned_flops(store, job.model_copy(update={"hyperparameters": {"lr": 0.2}})) is None
    (tmp_path / "train.py").write_text("print()\n")
    assert planned_flops(store, job) is None
    store, job = stored(tmp_path, model_flops=None)
    assert planned_flops(store, job) is None


@pytest.mark.parametrize("planned", [None, PlannedFlops(5e12, None, 4, None)])
def test_the_agent_reads_what_the_client_has_planned(planned: PlannedFlops | None, tmp_path: Path):
    job = AgentJob("run", "job", "training", "train.py", "python3", "/checkpoints", planned_flops=planned)
    write_json(tmp_path / "job.json", job_document(job))
    assert AgentJob.read(tmp_path / "job.json").planned_flops == planned
