"""Hyperparameter tuning jobs, HyperPod clusters and files of runs that were never submitted, over HTTP.

The emulator leaves tuning jobs and clusters to moto, which has no StopHyperParameterTuningJob and completes tuning jobs at once: both
are changed here.
"""

from __future__ import annotations

import json
import time
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from moto.s3.models import s3_backends
from moto.sagemaker.models import sagemaker_backends
from moto.sagemaker.responses import SageMakerResponse

from gpuproof.backends.ec2.launch_record import LaunchRecord
from support.cli_sandbox import CliSandbox
from support.emulated_account import DAY, EmulatedAccount

pytestmark = pytest.mark.slow

ACCOUNT_ID, REGION = "123456789012", "us-east-1"
BUCKET = f"gpuproof-{ACCOUNT_ID}-{REGION}"
IMAGE = f"{ACCOUNT_ID}.dkr.ecr.{REGION}.amazonaws.com/train:1"
ROLE = f"arn:aws:iam::{ACCOUNT_ID}:role/SageMakerRole"


def listed(cli: CliSandbox, *words: str, code: int = 0) -> dict[str, dict[str, Any]]:
    """What `gpuproof cleanup` lists, by kind and name."""
    done = cli.gpuproof("cleanup", *words, "--format", "json")
    assert done.returncode == code, done.stdout + done.stderr
    return {
        resource["key"].removeprefix(f"{REGION}/"): resource
        for resource in json.loads(done.stdout)["resources"]
    }


def tuning_jobs(account: EmulatedAccount) -> dict[str, str]:
    """The tuning jobs' statuses by their names."""
    found = account.client("sagemaker", REGION).list_hyper_parameter_tuning_jobs()
    return {
        summary["HyperParameterTuningJobName"]: summary["HyperParameterTuningJobStatus"]
        for summary in found["HyperParameterTuningJobSummaries"]
    }


def tune(account: EmulatedAccount, name: str, *, running: bool = True, **tags: str) -> str:
    """A tuning job; returns its ARN."""
    sagemaker = account.client("sagemaker", REGION)
    limits = {"MaxNumberOfTrainingJobs": 4, "MaxParallelTrainingJobs": 2}
    made = sagemaker.create_hyper_parameter_tuning_job(
        HyperParameterTuningJobName=name,
        HyperParameterTuningJobConfig={"Strategy": "Random", "ResourceLimits": limits},
        TrainingJobDefinition={
            "AlgorithmSpecification": {"TrainingInputMode": "File", "TrainingImage": IMAGE},
            "RoleArn": ROLE,
            "OutputDataConfig": {"S3OutputPath": f"s3://{BUCKET}/out"},
            "ResourceConfig": {"InstanceType": "ml.g5.xlarge", "InstanceCount": 1, "VolumeSizeInGB": 30},
            "StoppingCondition": {"MaxRuntimeInSeconds": 3600},
        },
        Tags=[{"Key": key.replace("_", ":"), "Value": value} for key, value in tags.items()],
    )
    if running:
        jobs = sagemaker_backends[ACCOUNT_ID][REGION].hyper_parameter_tuning_jobs
        jobs[name].hyper_parameter_tuning_job_status = "InProgress"
    return made["HyperParameterTuningJobArn"]


@pytest.fixture
def stoppable(monkeypatch: pytest.MonkeyPatch) -> None:
    """StopHyperParameterTuningJob, as SageMaker has it."""

    def stop(self: SageMakerResponse) -> str:
        name = json.loads(self.body)["HyperParameterTuningJobName"]
        jobs = self.sagemaker_backend.hyper_parameter_tuning_jobs
        jobs[name].hyper_parameter_tuning_job_status = "Stopping"
        return ""

    monkeypatch.setattr(SageMakerResponse, "stop_hyper_parameter_tuning_job", stop, raising=False)


@pytest.mark.usefixtures("stoppable")
def test_a_tuning_job_is_stopped_by_its_name_and_no_other(account: EmulatedAccount, cli: CliSandbox) -> None:
    arn = tune(account, "search")
    tune(account, "other")
    tune(account, "ended", running=False)
    account.job("search-001", TuningJobArn=arn)
    before = account.state()
    found = listed(cli)
    assert sorted(found) == ["training-job/search-001", "tuning-job/other", "tuning-job/search"]
    # Its training jobs are what costs money.
    assert found["tuning-job/search"]["usd_per_hour"] == 0
    assert found["training-job/search-001"]["usd_per_hour"] == pytest.approx(1.408)
    assert found["training-job/search-001"]["note"] == "of the tuning job search"
    assert found["tuning-job/search"]["what_happens"] == "stop, with its training jobs"
    done = cli.gpuproof("cleanup", "search", "--delete", "--yes")
    assert (done.returncode, account.changes()) == (0, ["StopHyperParameterTuningJob"]), done.stderr
    assert tuning_jobs(account) == {"search": "Stopping", "other": "InProgress", "ended": "Completed"}
    assert account.state() == before


@pytest.mark.usefixtures("stoppable")
def test_filters_stop_tuning_jobs_only_with_an_age(account: EmulatedAccount, cli: CliSandbox) -> None:
    tune(account, "mine", gpuproof_job="mine")
    tune(account, "theirs")
    done = cli.gpuproof("cleanup", "--gpuproof", "--delete", "--yes")
    assert "it is running and ends by itself" in done.stdout, done.stderr
    assert tuning_jobs(account) == {"mine": "InProgress", "theirs": "InProgress"}
    cli.gpuproof("cleanup", "--gpuproof", "--older-than", "0s", "--delete", "--yes")
    assert tuning_jobs(account) == {"mine": "Stopping", "theirs": "InProgress"}


def test_a_tuning_job_that_cannot_be_stopped_is_named_and_the_rest_is_deleted(
    account: EmulatedAccount, cli: CliSandbox
) -> None:
    tune(account, "search")
    account.endpoint("chat")
    account.fault("access-denied,operation=StopHyperParameterTuningJob")
    done = cli.gpuproof("cleanup", "search", "chat", "--delete", "--yes")
    assert done.returncode == 5
    assert "tuning-job/search in us-east-1" in done.stderr
    assert "StopHyperParameterTuningJob" in done.stderr
    assert tuning_jobs(account) == {"search": "InProgress"}
    assert "us-east-1/endpoint/chat" not in account.state()


def test_without_permission_to_list_tuning_jobs_the_rest_is_listed(
    account: EmulatedAccount, cli: CliSandbox
) -> None:
    tune(account, "search")
    account.job("train")
    account.fault("access-denied,operation=ListHyperParameterTuningJobs")
    done = cli.gpuproof("cleanup")
    assert done.returncode == 5
    assert "no permission for sagemaker:ListHyperParameterTuningJobs" in done.stderr
    assert "train" in done.stdout


def cluster(account: EmulatedAccount, name: str, **groups: int) -> None:
    """A HyperPod cluster with instance groups, by their types."""
    account.client("sagemaker", REGION).create_cluster(
        ClusterName=name,
        InstanceGroups=[
            {
                "InstanceCount": count,
                "InstanceGroupName": f"group-{number}",
                "InstanceType": "ml." + kind.replace("_", "."),
                "LifeCycleConfig": {"SourceS3Uri": "s3://sagemaker-lifecycle/x", "OnCreate": "on_create.sh"},
                "ExecutionRole": ROLE,
                "ThreadsPerCore": 1,
            }
            for number, (kind, count) in enumerate(groups.items())
        ],
    )


def clusters(account: EmulatedAccount) -> list[str]:
    found = account.client("sagemaker", REGION).list_clusters()["ClusterSummaries"]
    return sorted(match["ClusterName"] for match in found)


def test_a_cluster_is_listed_with_its_cost_and_never_deleted(
    account: EmulatedAccount, cli: CliSandbox
) -> None:
    cluster(account, "pod", g5_xlarge=2, g5_12xlarge=1)
    found = listed(cli)["cluster/pod"]
    assert found["instances"] == [
        {"type": "ml.g5.12xlarge", "count": 1},
        {"type": "ml.g5.xlarge", "count": 2},
    ]
    assert found["usd_per_hour"] > 2 * 1.006
    assert found["calls"] == []
    for words in (["pod"], ["cluster/pod"], [found["key"]]):
        done = cli.gpuproof("cleanup", *words, "--delete", "--yes")
        assert done.returncode == 2
        assert "Nothing was deleted" in done.stderr
        assert "aws sagemaker delete-cluster --cluster-name pod --region us-east-1" in done.stderr
    done = cli.gpuproof("cleanup", "--older-than", "0s", "--include-data", "--delete", "--yes")
    assert (done.returncode, "delete-cluster" in done.stdout) == (0, True), done.stderr
    assert clusters(account) == ["pod"]
    assert account.changes() == []


def test_a_cluster_whose_nodes_cannot_be_listed_has_an_unknown_price(
    account: EmulatedAccount, cli: CliSandbox
) -> None:
    cluster(account, "pod", g5_xlarge=2)
    account.fault("access-denied,operation=ListClusterNodes")
    found = listed(cli, code=5)["cluster/pod"]
    assert found["usd_per_hour"] is None


def put(account: EmulatedAccount, key: str, age: float = 0.0) -> None:
    """A file in GPUproof's bucket, which was written some seconds ago."""
    s3 = account.client("s3", REGION)
    s3.create_bucket(Bucket=BUCKET)
    s3.put_object(Bucket=BUCKET, Key=key, Body=b"x")
    stored = s3_backends[ACCOUNT_ID]["aws"].get_object(BUCKET, key)
    assert stored is not None
    stored.last_modified = (datetime.now(UTC) - timedelta(seconds=age)).replace(tzinfo=None)


def old_and_new_files(account: EmulatedAccount) -> None:
    """The folder of one run that was never submitted, and those of runs that were, or may be."""
    for name in ("code/job.json", "code/source.tar.gz", "code/gpuproof-agent.pyz"):
        put(account, f"gpuproof/runs/lost/{name}", 2 * DAY)
    put(account, "gpuproof/runs/young/code/job.json", 3600)
    put(account, "gpuproof/runs/half-young/code/job.json", 2 * DAY)
    put(account, "gpuproof/runs/half-young/code/source.tar.gz", 60)
    put(account, "gpuproof/runs/submitted/code/job.json", 40 * DAY)
    account.job("submitted", tags={"gpuproof:run": "submitted"}, status="Completed", age=40 * DAY)
    put(account, "gpuproof/runs/launched/code/job.json", 40 * DAY)
    put(account, "gpuproof/ec2/launched.json", 40 * DAY)
    put(account, "gpuproof/runs/results/code/job.json", 40 * DAY)
    put(account, "gpuproof/runs/results/output/model.tar.gz", 40 * DAY)
    put(account, "gpuproof/checkpoints/j/lost/model.pt", 40 * DAY)


def launches(account: EmulatedAccount) -> None:
    """The records of runs on EC2: one whose client died, one that is being launched, one that a user stopped, one with an instance."""
    now = time.time()
    for name, fields in (
        ("died", {"launching": now - 3600}),
        ("launching", {"launching": now - 60}),
        ("stopped", {"launching": now - 60, "stopped": now - 30}),
        ("has-instance", {"launching": now - 3600, "instances": ("i-0123456789abcdef0",)}),
        ("unrecorded", {"launching": now - 3600}),
    ):
        put(account, f"gpuproof/runs/{name}/code/job.json", 60)
        record = LaunchRecord(
            run_id=name,
            job_name="train",
            kind="training",
            region=REGION,
            bucket=BUCKET,
            instance_type="g5.xlarge",
            instance_count=1,
            spot=False,
            image="ami-12c6146b",
            created=now - 7200,
            max_duration=3600.0,
            **fields,
        )
        account.client("s3", REGION).put_object(
            Bucket=BUCKET, Key=f"gpuproof/ec2/{name}.json", Body=record.to_bytes()
        )
    account.client("ec2", REGION).run_instances(
        ImageId="ami-12c6146b",
        MinCount=1,
        MaxCount=1,
        TagSpecifications=[
            {"ResourceType": "instance", "Tags": [{"Key": "gpuproof:run", "Value": "unrecorded"}]}
        ],
    )


def test_what_a_run_uploaded_that_was_never_launched_is_deleted_with_its_record(
    account: EmulatedAccount, cli: CliSandbox
) -> None:
    launches(account)
    before = account.state()
    found = listed(cli)
    assert sorted(name for name in found if name.startswith("run-files/")) == [
        "run-files/died",
        "run-files/stopped",
    ]
    assert found["run-files/died"]["note"] == "of a run that was never launched"
    done = cli.gpuproof("cleanup", "run-files/died", "run-files/stopped", "--delete", "--yes")
    assert done.returncode == 0, done.stderr
    after = account.state()
    assert {key for key in before if key not in after} == {
        f"s3://{BUCKET}/gpuproof/{name}"
        for run in ("died", "stopped")
        for name in (f"ec2/{run}.json", f"runs/{run}/code/job.json")
    }


def old_and_new_models(account: EmulatedAccount) -> None:
    """The files of two models that do not exist, and of those that do, or may be created, or that a job reads."""
    put(account, "gpuproof/endpoints/lost/model.tar.gz", 2 * DAY)
    put(account, "gpuproof/endpoints/lost/server/gpuproof-agent.pyz", 2 * DAY)
    put(account, "gpuproof/endpoints/ended/input/x.csv", 2 * DAY)
    account.transform("ended", status="Completed", age=3 * DAY)
    put(account, "gpuproof/endpoints/running/input/x.csv", 2 * DAY)
    account.transform("running", status="InProgress", age=3 * DAY)
    put(account, "gpuproof/endpoints/young/model.tar.gz", 3600)
    put(account, "gpuproof/endpoints/exists/model.tar.gz", 2 * DAY)
    container = {"Image": IMAGE, "ModelDataUrl": f"s3://{BUCKET}/gpuproof/endpoints/exists/model.tar.gz"}
    account.client("sagemaker", REGION).create_model(ModelName="exists", PrimaryContainer=container)
    put(account, "gpuproof/endpoints/of-the-user/model.tar.gz", 2 * DAY)
    put(account, "gpuproof/endpoints/of-the-user/notes.txt", 2 * DAY)
    put(account, "gpuproof/endpoints/no_name/model.tar.gz", 2 * DAY)


def test_old_files_of_a_model_that_does_not_exist_are_deleted_and_no_others(
    account: EmulatedAccount, cli: CliSandbox
) -> None:
    old_and_new_models(account)
    before = account.state()
    found = listed(cli)
    assert sorted(found) == ["model-files/ended", "model-files/lost", "transform-job/running"]
    assert found["model-files/lost"]["note"] == "of a model that does not exist"
    done = cli.gpuproof("cleanup", "--gpuproof", "--delete", "--yes")
    assert done.returncode == 0, done.stderr
    after = account.state()
    assert {key for key in before if key not in after} == {
        f"s3://{BUCKET}/gpuproof/endpoints/{name}"
        for name in ("lost/model.tar.gz", "lost/server/gpuproof-agent.pyz", "ended/input/x.csv")
    }


@pytest.mark.parametrize("operation", ["ListModels", "DescribeTransformJob", "ListObjectsV2"])
def test_files_stay_if_it_cannot_be_known_whether_their_model_exists(
    account: EmulatedAccount, cli: CliSandbox, operation: str
) -> None:
    old_and_new_models(account)
    before = account.state()
    account.fault(f"access-denied,operation={operation}")
    done = cli.gpuproof("cleanup", "--gpuproof", "--delete", "--yes")
    account.emulator.context.faults.clear()
    assert done.returncode == 5
    assert account.state() == before


def test_old_files_of_a_run_that_was_never_submitted_are_deleted_and_no_others(
    account: EmulatedAccount, cli: CliSandbox
) -> None:
    old_and_new_files(account)
    before = account.state()
    found = listed(cli)
    assert sorted(found) == ["run-files/lost"]
    assert found["run-files/lost"]["note"] == "of a run that was never submitted"
    assert found["run-files/lost"]["age_seconds"] == pytest.approx(2 * DAY, rel=0.01)
    cli.gpuproof("cleanup", "--gpuproof", "--older-than", "3d", "--delete", "--yes")
    assert account.state() == before
    done = cli.gpuproof("cleanup", "--gpuproof", "--delete", "--yes")
    assert done.returncode == 0, done.stderr
    after = account.state()
    assert {key for key in before if key not in after} == {
        f"s3://{BUCKET}/gpuproof/runs/lost/code/{name}"
        for name in ("job.json", "source.tar.gz", "gpuproof-agent.pyz")
    }
    assert after == {key: value for key, value in before.items() if key in after}


@pytest.mark.parametrize(
    "fault", ["service=tagging", "service=s3,operation=ListObjectsV2", "service=s3,operation=HeadBucket"]
)
def test_files_stay_if_it_cannot_be_known_whether_their_run_was_submitted(
    account: EmulatedAccount, cli: CliSandbox, fault: str
) -> None:
    old_and_new_files(account)
    before = account.state()
    account.fault(f"access-denied,{fault}")
    done = cli.gpuproof("cleanup", "--gpuproof", "--delete", "--yes")
    account.emulator.context.faults.clear()
    assert done.returncode == 5
    assert account.state() == before


def test_files_whose_deletion_is_refused_stay_and_are_named(
    account: EmulatedAccount, cli: CliSandbox
) -> None:
    old_and_new_files(account)
    before = account.state()
    account.fault("access-denied,service=s3,operation=DeleteObjects")
    done = cli.gpuproof("cleanup", "run-files/lost", "--delete", "--yes")
    assert done.returncode == 5
    assert "run-files/lost in us-east-1" in done.stderr
    assert account.state() == before
