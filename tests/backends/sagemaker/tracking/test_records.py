"""Converting SageMaker's description of a job to a record."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from gpuproof.backends.record import RunRecord
from gpuproof.backends.remote.run_id import is_run_id, job_name_in
from gpuproof.backends.sagemaker.tracking.records import (
    exit_code_in,
    listed_record,
    name_in,
    read_instance_tag,
    record_of,
)
from gpuproof.catalogue import Catalogue
from gpuproof.errors import ExitCode

START = datetime(2026, 5, 1, 12, 0, tzinfo=UTC)
RUN = "train-20260501-120000-ab12"
TAGS = {"gpuproof:run": RUN, "gpuproof:job": "train", "gpuproof:require-gpu": "true"}


def at(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


def training(**more: Any) -> dict[str, Any]:
    return {
        "TrainingJobName": RUN,
        "TrainingJobArn": f"arn:aws:sagemaker:us-east-1:123456789012:training-job/{RUN}",
        "TrainingJobStatus": "InProgress",
        "SecondaryStatus": "Starting",
        "CreationTime": START,
        "ResourceConfig": {"InstanceType": "ml.g5.xlarge", "InstanceCount": 1},
        **more,
    }


def read(
    description: dict[str, Any],
    kind: Any = "training",
    tags: dict[str, str] | None = None,
    verdict: dict[str, Any] | None = None,
) -> RunRecord:
    return record_of(
        kind,
        description,
        TAGS if tags is None else tags,
        Catalogue.load(),
        region="us-east-1",
        now=at(1000).timestamp(),
        verdict=verdict,
    )


def test_a_job_that_goes_on_has_sagemakers_words_and_its_cost_so_far() -> None:
    transitions = [
        {"Status": "Starting", "StartTime": at(0), "EndTime": at(60), "StatusMessage": "Launching"},
        {"Status": "Downloading", "StartTime": at(60), "EndTime": at(100), "StatusMessage": "Data"},
        {"Status": "Training", "StartTime": at(100), "StatusMessage": "Training in progress."},
    ]
    record = read(
        training(SecondaryStatus="Training", TrainingStartTime=at(60), SecondaryStatusTransitions=transitions)
    )
    assert (record.id, record.job_name, record.kind, record.backend) == (
        RUN,
        "train",
        "training",
        "sagemaker",
    )
    assert (record.status, record.secondary_status, record.has_ended) == ("InProgress", "Training", False)
    assert (record.created, record.started) == (START.timestamp(), at(100).timestamp())
    assert record.document["status_message"] == "Training in progress."
    assert record.billed_seconds == 940
    assert record.cost is not None
    assert (record.instance_type, record.instance_count) == ("ml.g5.xlarge", 1)


def test_a_job_that_waits_for_its_instances_costs_nothing_yet() -> None:
    record = read(training())
    assert (record.started, record.billed_seconds, record.cost) == (None, None, None)


def test_a_failed_job_has_reason_and_exit_code() -> None:
    reason = "AlgorithmError: ExecuteUserScriptError: , exit code: 137"
    record = read(training(TrainingJobStatus="Failed", FailureReason=reason, TrainingEndTime=at(200)))
    assert (record.exit_code, record.failure_reason, record.outcome) == (137, reason, ExitCode.FAILED)


@pytest.mark.parametrize(
    ("status", "reason", "code"),
    [
        ("Completed", None, 0),
        ("Failed", "AlgorithmError: , exit code: 1", 1),
        ("Failed", "AlgorithmError: ExecuteUserScriptError:\nExitCode 2\nErrorMessage", 2),
        ("Failed", "CapacityError: Unable to provision requested ML compute capacity.", None),
        ("Stopped", None, None),
    ],
)
def test_the_exit_code_stands_in_the_failure_reason(
    status: str, reason: str | None, code: int | None
) -> None:
    assert exit_code_in(status, reason) == code


def test_a_verdict_decides_the_outcome_of_a_job_that_completed() -> None:
    done = training(TrainingJobStatus="Completed", SecondaryStatus="Completed", TrainingEndTime=at(200))
    assert read(done, verdict={"outcome": "used", "gpu_requirement_met": True}).outcome == ExitCode.OK
    idle = read(done, verdict={"outcome": "idle", "gpu_requirement_met": False})
    assert (idle.verdict, idle.outcome) == ("idle", ExitCode.GPU_UNUSED)


def test_without_a_verdict_a_required_gpu_leaves_it_undecided() -> None:
    done = training(TrainingJobStatus="Completed", TrainingEndTime=at(200))
    assert read(done).outcome == ExitCode.UNDECIDED
    assert read(done, tags={"gpuproof:run": RUN}).outcome == ExitCode.OK


def test_a_job_stopped_for_its_unused_gpu_has_its_own_exit_code() -> None:
    reason = "AlgorithmError: [gpu-unused] whatever the sentence is, exit code: 1"
    failed = training(TrainingJobStatus="Failed", FailureReason=reason, TrainingEndTime=at(200))
    record = read(failed)
    assert record.outcome == ExitCode.GPU_UNUSED
    assert record.failure_reason == "AlgorithmError: whatever the sentence is, exit code: 1"


@pytest.mark.parametrize(
    "reason",
    [
        "AlgorithmError: no GPU did any work in the first 900 s",
        "AlgorithmError: ValueError: [gpu-unused] quoted by a script",
        "AlgorithmError: [some-code] of another program",
    ],
)
def test_no_sentence_is_taken_for_the_code(reason: str) -> None:
    failed = read(training(TrainingJobStatus="Failed", FailureReason=reason, TrainingEndTime=at(200)))
    assert (failed.outcome, failed.failure_reason) == (ExitCode.FAILED, reason)


def test_interruptions_of_spot_instances_are_counted_and_noted() -> None:
    transitions = [{"Status": word, "StartTime": at(1)} for word in ("Starting", "Interrupted", "Starting")]
    record = read(training(SecondaryStatusTransitions=transitions, EnableManagedSpotTraining=True))
    assert record.document["interruptions"] == 1
    assert record.notes == ("its spot instance was reclaimed once",)


def test_an_interruption_that_ended_it_gets_the_advice_to_resume() -> None:
    transitions = [
        {"Status": "Training", "StartTime": at(100)},
        {"Status": "Interrupted", "StartTime": at(160)},
    ]
    going_on = training(SecondaryStatus="Interrupted", SecondaryStatusTransitions=transitions)
    (once,) = read(going_on).notes
    (_, again) = read({**going_on, "TrainingJobStatus": "Stopped"}).notes
    assert "once" in once
    assert "the same `gpuproof run` continues from its checkpoints" in again


def test_the_last_values_of_metrics_are_in_the_record() -> None:
    values = [{"MetricName": "loss", "Value": 0.25, "Timestamp": at(200)}]
    assert read(training(FinalMetricDataList=values)).document["metrics"] == {"loss": 0.25}
    assert read(training()).document["metrics"] == {}


def test_the_image_is_recorded_for_both_kinds_of_jobs() -> None:
    assert read(training()).document["image"] is None
    assert read(training(AlgorithmSpecification={"TrainingImage": "x:1"})).document["image"] == "x:1"
    processing = {
        "ProcessingJobName": RUN,
        "ProcessingJobArn": f"arn:aws:sagemaker:us-east-1:123456789012:processing-job/{RUN}",
        "ProcessingJobStatus": "InProgress",
        "CreationTime": START,
        "AppSpecification": {"ImageUri": "y:2"},
    }
    assert read(processing, "processing").document["image"] == "y:2"


@pytest.mark.parametrize(
    ("secondary", "word"), [("MaxRuntimeExceeded", "--max-duration"), ("MaxWaitTimeExceeded", "--max-wait")]
)
def test_a_limit_that_stopped_it_is_named_with_its_flag(secondary: str, word: str) -> None:
    stopped = training(
        TrainingJobStatus="Stopped",
        SecondaryStatus=secondary,
        StoppingCondition={"MaxRuntimeInSeconds": 60, "MaxWaitTimeInSeconds": 120},
    )
    assert word in read(stopped).notes[0]


def test_a_processing_job_has_a_record_too() -> None:
    record = read(
        {
            "ProcessingJobName": RUN,
            "ProcessingJobArn": f"arn:aws:sagemaker:us-east-1:123456789012:processing-job/{RUN}",
            "ProcessingJobStatus": "Failed",
            "CreationTime": START,
            "ProcessingStartTime": at(120),
            "ProcessingEndTime": at(180),
            "ExitMessage": "no rows",
            "FailureReason": "AlgorithmError: See job logs for more information, exit code: 3",
            "ProcessingResources": {"ClusterConfig": {"InstanceType": "ml.m5.xlarge", "InstanceCount": 2}},
        },
        "processing",
    )
    assert (record.started, record.ended) == (at(120).timestamp(), at(180).timestamp())
    assert (record.exit_code, record.billed_seconds, record.instance_count) == (3, 60, 2)
    assert record.seconds(0.0) == 60


def test_a_listed_job_has_what_lists_and_tags_say() -> None:
    summary = {
        "TrainingJobName": RUN,
        "TrainingJobArn": "arn:aws:sagemaker:us-east-1:123456789012:training-job/x",
        "TrainingJobStatus": "Completed",
        "CreationTime": START,
        "TrainingEndTime": at(100),
    }
    record = listed_record(
        "training", summary, {**TAGS, "gpuproof:instance": "2 x ml.g5.xlarge"}, "us-east-1"
    )
    assert (record.job_name, record.instance_type, record.instance_count) == ("train", "ml.g5.xlarge", 2)
    assert (record.status, record.cost, record.seconds(0.0)) == ("Completed", None, None)


@pytest.mark.parametrize(
    ("tag", "read_as"),
    [("ml.g5.xlarge", ("ml.g5.xlarge", 1)), ("4 x ml.p4d.24xlarge", ("ml.p4d.24xlarge", 4)), ("", (None, 1))],
)
def test_the_instance_tag_holds_type_and_count(tag: str, read_as: tuple[str | None, int]) -> None:
    assert read_instance_tag(tag) == read_as


@pytest.mark.parametrize(
    ("arn", "found"),
    [
        ("arn:aws:sagemaker:us-east-1:1:training-job/a-b", ("training", "a-b")),
        ("arn:aws:sagemaker:us-east-1:1:processing-job/c", ("processing", "c")),
        ("arn:aws:sagemaker:us-east-1:1:endpoint/e", None),
    ],
)
def test_an_arn_contains_kind_and_name(arn: str, found: tuple[str, str] | None) -> None:
    assert name_in(arn) == found


def test_a_runs_id_holds_the_jobs_name() -> None:
    assert job_name_in("my-job-20260501-120000-ab12") == "my-job"
    assert job_name_in("unrelated") == "unrelated"
    assert is_run_id("my-job-20260501-120000-ab12")
    assert not is_run_id("my-job")
