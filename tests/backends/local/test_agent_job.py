"""A job as this machine's agent gets it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from gpuproof.agent.contract import code_folder
from gpuproof.agent.job import AgentJob, Mount, ProcessingOutput, UnusedGpuRule
from gpuproof.agent.paths import RunPaths
from gpuproof.backends.agent_job.document import job_document
from gpuproof.backends.agent_job.expected_gpus import ExpectedGpus
from gpuproof.backends.local.agent_job import local_job, plan_warnings
from gpuproof.backends.s3_inputs.mapping import S3Prefix
from gpuproof.jobs.models.script_jobs import Job, ProcessingJob, TrainingJob


def agent_job_of(job: Job, gpus_here: int = 0, sources: dict[str, Any] | None = None) -> AgentJob:
    return local_job(
        job,
        RunPaths(Path("/runs/train-1")),
        python="/usr/bin/python3",
        expected=ExpectedGpus(1, "A10G", "instance_type: ml.g5.xlarge"),
        gpus_here=gpus_here,
        checkpoints=Path("/runs/train-1/checkpoints"),
        sources=sources or {},
    )


def training(**keys: Any) -> TrainingJob:
    return TrainingJob(entry_point="train.py", **keys)


def processing(**keys: Any) -> ProcessingJob:
    return ProcessingJob(entry_point="clean.py", **keys)


def test_a_training_job_arrives_whole() -> None:
    agent_job = agent_job_of(
        training(
            hyperparameters={"epochs": 5, "rate": 0.1},
            arguments=("--fast",),
            environment={"WHO": "me"},
            framework="pytorch",
            instance_type="ml.g5.xlarge",
            max_duration="2h",
            require_gpu=True,
            output="/out",
        )
    )
    assert agent_job.run_id == "train-1"
    assert agent_job.job_name == "train"
    assert agent_job.hyperparameters == {"epochs": 5, "rate": 0.1}
    assert agent_job.arguments == ("--fast",)
    assert agent_job.environment == {"WHO": "me"}
    assert (agent_job.framework, agent_job.instance_type) == ("pytorch", "ml.g5.xlarge")
    assert agent_job.max_duration == 7200.0
    assert (agent_job.expected_gpus, agent_job.expected_gpu_name, agent_job.require_gpu) == (1, "A10G", True)
    assert agent_job.output == "/out"
    assert agent_job.checkpoints == "/runs/train-1/checkpoints"


def test_the_agent_reads_what_was_written(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    agent_job = agent_job_of(
        training(inputs={"training": str(tmp_path / "data")}, if_gpu_unused="stop"),
        gpus_here=1,
        sources={"training": tmp_path / "data"},
    )
    (tmp_path / "job.json").write_text(json.dumps(job_document(agent_job)))
    assert AgentJob.read(tmp_path / "job.json") == agent_job


def test_a_channels_folder_is_mounted_where_sagemaker_puts_it(tmp_path: Path) -> None:
    agent_job = agent_job_of(training(inputs={"training": str(tmp_path)}), sources={"training": tmp_path})
    assert agent_job.channels == ("training",)
    assert agent_job.mounts == (Mount(str(tmp_path), "input/data/training"),)


def test_a_file_lies_in_its_channels_folder(tmp_path: Path) -> None:
    rows = tmp_path / "rows.csv"
    rows.touch()
    agent_job = agent_job_of(training(inputs={"training": str(rows)}), sources={"training": rows})
    assert agent_job.mounts == (Mount(str(rows), "input/data/training/rows.csv"),)


def test_an_s3_prefix_is_shown_as_it_is_written() -> None:
    agent_job = agent_job_of(
        training(inputs={"training": "s3://rows/data"}), sources={"training": S3Prefix("rows", "data")}
    )
    assert agent_job.mounts == (Mount("s3://rows/data", "input/data/training"),)


def test_a_processing_input_is_mounted_at_its_path(tmp_path: Path) -> None:
    job = processing(inputs={"/opt/ml/processing/raw": str(tmp_path)})
    agent_job = agent_job_of(job, sources={"/opt/ml/processing/raw": tmp_path})
    assert agent_job.mounts == (Mount(str(tmp_path), "processing/raw"),)
    assert agent_job.channels == ()


def test_an_input_that_covers_the_codes_place_moves_the_code_beside_it(tmp_path: Path) -> None:
    job = processing(inputs={"/opt/ml/processing/input": str(tmp_path)})
    agent_job = agent_job_of(job, sources={"/opt/ml/processing/input": tmp_path})
    assert agent_job.mounts == (Mount(str(tmp_path), "processing/input"),)
    assert code_folder(agent_job) == "processing/code"
    assert code_folder(agent_job_of(processing())) == "processing/input/code"


def test_processing_outputs_go_where_they_can_go_from_here() -> None:
    agent_job = agent_job_of(
        processing(
            outputs={
                "/opt/ml/processing/done": "/done",
                "/opt/ml/processing/far": "s3://rows/far",
                "/opt/ml/processing/kept": None,
            }
        )
    )
    assert agent_job.outputs == (
        ProcessingOutput("processing/done", "/done"),
        ProcessingOutput("processing/far", None),
        ProcessingOutput("processing/kept", None),
    )


def test_artifacts_for_s3_stay_with_the_run() -> None:
    assert agent_job_of(training(output="s3://rows/models")).output is None


@pytest.mark.parametrize(
    ("keys", "gpus", "rule"),
    [
        ({}, 1, UnusedGpuRule("warn", 300.0)),
        ({"if_gpu_unused": "stop"}, 1, UnusedGpuRule("stop", 300.0)),
        ({"if_gpu_unused": {"action": "fail", "grace": "10s"}}, 2, UnusedGpuRule("fail", 10.0)),
        ({"if_gpu_unused": "stop"}, 0, None),
        ({"if_gpu_unused": "stop", "require_gpu": False}, 1, None),
    ],
    ids=["warn by itself", "as asked", "with its grace", "no GPU here", "no GPU required"],
)
def test_an_unused_gpu_is_a_matter_only_where_there_is_one(
    keys: dict[str, Any], gpus: int, rule: UnusedGpuRule | None
) -> None:
    assert agent_job_of(training(**keys), gpus_here=gpus).if_gpu_unused == rule


def test_hosts_have_sagemakers_names() -> None:
    assert agent_job_of(training(instance_count=2)).hosts == ("algo-1", "algo-2")


@pytest.mark.parametrize(
    ("job", "word"),
    [
        (training(output="s3://rows/models"), "s3://rows/models is on S3"),
        (training(checkpoint="s3://rows/ckpt"), "s3://rows/ckpt is on S3"),
        (processing(outputs={"/opt/ml/processing/out": "s3://rows/out"}), "s3://rows/out is on S3"),
        (training(framework="fastai2"), "fastai2"),
    ],
    ids=["output", "checkpoints", "processing output", "framework"],
)
def test_local_differences_are_noted(job: Job, word: str) -> None:
    (note,) = plan_warnings(job, ExpectedGpus(None))
    assert word in note


@pytest.mark.parametrize(
    "job",
    [
        training(output="/out", checkpoint={"path": "/ckpt", "s3": "s3://rows/ckpt"}),
        processing(outputs={"/opt/ml/processing/out": None}),
    ],
)
def test_what_is_the_same_here_is_not_worth_a_word(job: Job) -> None:
    assert plan_warnings(job, ExpectedGpus(None)) == []


def test_an_unknown_instance_type_is_noted() -> None:
    (note,) = plan_warnings(training(), ExpectedGpus(None, unknown="ml.q9.huge"))
    assert "ml.q9.huge is not in the catalogue" in note


def test_the_script_gets_the_region_of_the_job() -> None:
    assert agent_job_of(training(resources={"region": "us-east-1"})).region == "us-east-1"
    assert agent_job_of(processing()).region is None
