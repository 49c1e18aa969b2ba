"""Faults are parsed, match the intended requests and jobs, and cause AWS's own errors."""

from __future__ import annotations

from typing import Any

import pytest
from botocore.exceptions import ClientError, ConnectionClosedError, EndpointConnectionError

from gpuproof_emulator.faults.fault import Fault, Faults, InvalidFault
from support.emulator_jobs import Account, secondary

pytestmark = pytest.mark.slow

ONCE = {"retries": {"max_attempts": 0}}
SPOT = {
    "EnableManagedSpotTraining": True,
    "StoppingCondition": {"MaxRuntimeInSeconds": 3600, "MaxWaitTimeInSeconds": 7200},
}


def code_of(call: Any, **request: Any) -> str:
    """The code of the error with which a call is refused."""
    with pytest.raises(ClientError) as caught:
        call(**request)
    return caught.value.response["Error"]["Code"]


def test_a_fault_is_written_as_its_kind_and_its_limits() -> None:
    fault = Fault.parse("interruption,after=2.5,final=yes,name=train-*,count=3")
    assert (fault.kind, fault.after, fault.final, fault.name, fault.count) == (
        "interruption",
        2.5,
        True,
        "train-*",
        3,
    )


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("earthquake", "unknown fault 'earthquake'"),
        ("throttling,where=there", "unknown limit 'where'"),
        ("throttling,count=many", "count=many is not a number"),
        (
            "throttling,operation=CreateTrainingJobs",
            "unknown operation 'CreateTrainingJobs'; did you mean 'CreateTrainingJob'",
        ),
        ("drop,service=s3,operation=CreateTrainingJob", "unknown operation 'CreateTrainingJob' of s3"),
        ("drop,operation=Xyz*", "of sagemaker, .* and ec2; service= selects another"),
        ("slow,service=sagmaker", "unknown service 'sagmaker'; did you mean 'sagemaker'"),
        (
            "capacity,operation=CreateTrainingJob",
            "capacity applies to SageMaker's jobs; select them with name= and instance=",
        ),
        ("quota,service=s3", "quota applies to SageMaker's jobs"),
        ("interruption,region=us-east-1", "interruption applies to jobs and endpoints in all regions"),
        ("throttling,instance=ml.g5.*", "throttling applies to requests, which have no instance"),
    ],
)
def test_an_impossible_fault_is_refused_with_the_reason(text: str, expected: str) -> None:
    with pytest.raises(InvalidFault, match=expected):
        Fault.parse(text)


@pytest.mark.parametrize(
    "limits",
    [
        "operation=Describe*",
        "service=s3*,operation=PutObject",
        "service=monitoring,operation=PutMetricData",
        "service=lambda,operation=Invoke",
        "service=elasticmapreduce",
        "operation=InvokeEndpoint",
        "operation=Post /2015-03-31/functions",
    ],
)
def test_a_fault_may_be_meant_for_whatever_aws_has(limits: str) -> None:
    assert Fault.parse(f"slow,seconds=0,{limits}").kind == "slow"


def test_a_fault_of_jobs_may_have_patterns_of_any_kind() -> None:
    fault = Fault.parse("capacity,name=train-[ab],instance=ml.[gp]5.*,service=sage*,operation=*")
    assert Faults([fault]).trigger(("capacity",), name="train-b", instance="ml.g5.xlarge") is fault


def test_the_second_fault_strikes_when_the_first_is_used_up() -> None:
    faults = Faults([Fault("slow", count=1, seconds=1), Fault("slow", seconds=2)])
    assert [fault.seconds for _ in range(3) if (fault := faults.trigger(("slow",)))] == [1, 2, 2]


def test_a_fault_meets_its_own_type_alone() -> None:
    faults = Faults([Fault("capacity", instance="ml.p5.*")])
    assert faults.trigger(("capacity",), instance="ml.g5.xlarge") is None
    assert faults.trigger(("capacity",), instance="ml.p5.48xlarge") is not None


def test_throttling_strikes_one_operation_so_many_times(aws: Account) -> None:
    aws.emulator.faults("throttling,operation=ListTrainingJobs,count=2")
    client = aws.client("sagemaker", **ONCE)
    assert code_of(client.list_training_jobs) == "ThrottlingException"
    client.list_processing_jobs()
    assert code_of(client.list_training_jobs) == "ThrottlingException"
    client.list_training_jobs()


def test_boto3_gets_over_a_little_throttling_by_itself(aws: Account) -> None:
    aws.emulator.faults("throttling,operation=DescribeTrainingJob,count=1")
    name = aws.trained("true")["TrainingJobName"]
    matching = [item for item in aws.emulator.requests if item["name"] == name]
    assert [item["status"] for item in matching if item["operation"] == "DescribeTrainingJob"][:2] == [
        400,
        200,
    ]


def test_s3_throttling_is_slow_down(aws: Account) -> None:
    aws.emulator.faults(f"throttling,service=s3,operation=PutObject,name={aws.bucket}/*,count=1")
    client = aws.client("s3", **ONCE)
    assert code_of(client.put_object, Bucket=aws.bucket, Key="a", Body=b"") == "SlowDown"
    client.put_object(Bucket=aws.bucket, Key="a", Body=b"")


def test_a_fault_passes_by_before_it_strikes(aws: Account) -> None:
    aws.emulator.faults("throttling,operation=ListModels,skip=1,count=1")
    client = aws.client("sagemaker", **ONCE)
    client.list_models()
    assert code_of(client.list_models) == "ThrottlingException"


def test_a_quota_blocks_only_its_own_type(aws: Account) -> None:
    aws.emulator.faults("quota,instance=ml.g5.*")
    client = aws.client("sagemaker")
    assert code_of(client.create_training_job, **aws.training("true")) == "ResourceLimitExceeded"
    other = {"InstanceType": "ml.g6.xlarge", "InstanceCount": 1, "VolumeSizeInGB": 1}
    assert aws.trained("true", ResourceConfig=other)["TrainingJobStatus"] == "Completed"


def test_no_capacity_fails_the_job(aws: Account) -> None:
    aws.emulator.faults("capacity,instance=ml.g5.xlarge,count=1")
    job = aws.trained("true")
    assert job["FailureReason"].startswith("CapacityError: Unable to provision requested ML compute capacity")
    assert "TrainingStartTime" not in job


def test_no_capacity_can_refuse_the_call(aws: Account) -> None:
    aws.emulator.faults("capacity,at=creation,count=1")
    assert code_of(aws.client("sagemaker").create_training_job, **aws.training("true")) == "CapacityError"


def test_no_capacity_fails_a_processing_job(aws: Account) -> None:
    aws.emulator.faults("capacity,count=1")
    assert aws.processed("true")["FailureReason"].startswith("CapacityError:")


def test_an_image_that_cannot_be_pulled_fails_the_job(aws: Account) -> None:
    aws.emulator.faults("no-image,count=1")
    assert aws.trained("true")["FailureReason"].startswith("ClientError: Cannot pull algorithm container.")


def test_a_connection_dropped_before_leaves_nothing_behind(aws: Account) -> None:
    aws.emulator.faults("drop,operation=CreateTrainingJob,count=1")
    request = aws.training("true")
    with pytest.raises((ConnectionClosedError, EndpointConnectionError)):
        aws.client("sagemaker", **ONCE).create_training_job(**request)
    found = aws.client("sagemaker").list_training_jobs(NameContains=request["TrainingJobName"])
    assert found["TrainingJobSummaries"] == []


def test_a_connection_dropped_after_leaves_a_job_that_runs(aws: Account) -> None:
    aws.emulator.faults("drop,operation=CreateTrainingJob,when=after,count=1")
    request = aws.training("true")
    with pytest.raises((ConnectionClosedError, EndpointConnectionError)):
        aws.client("sagemaker", **ONCE).create_training_job(**request)
    assert aws.ended(request["TrainingJobName"])["TrainingJobStatus"] == "Completed"


def test_a_dropped_upload_is_tried_again_by_boto3(aws: Account) -> None:
    aws.emulator.faults("drop,service=s3,operation=PutObject,when=after,count=1")
    aws.put("a.txt", "once")
    assert aws.get("a.txt") == "once"


def test_a_slow_start_keeps_the_job_starting(aws: Account) -> None:
    request = aws.training("true")
    name = request["TrainingJobName"]
    aws.emulator.faults(f"slow-start,seconds=600,name={name}")
    aws.client("sagemaker").create_training_job(**request)
    # A job that is not held takes as long as that.
    assert aws.trained("true")["TrainingJobStatus"] == "Completed"
    assert aws.job(name)["SecondaryStatus"] == "Starting"
    aws.client("sagemaker").stop_training_job(TrainingJobName=name)
    assert aws.ended(name)["TrainingJobStatus"] == "Stopped"


@pytest.mark.parametrize(
    ("fault", "service", "operation", "code"),
    [
        ("expired-token", "sagemaker", "list_models", "ExpiredTokenException"),
        ("expired-token", "s3", "list_buckets", "ExpiredToken"),
        ("expired-token", "sts", "get_caller_identity", "ExpiredToken"),
        ("access-denied", "sagemaker", "list_models", "AccessDeniedException"),
        ("access-denied", "s3", "list_buckets", "AccessDenied"),
        ("access-denied", "iam", "list_roles", "AccessDenied"),
        ("clock-skew", "sagemaker", "list_models", "InvalidSignatureException"),
        ("clock-skew", "s3", "list_buckets", "RequestTimeTooSkewed"),
        ("clock-skew", "sts", "get_caller_identity", "SignatureDoesNotMatch"),
        ("throttling", "logs", "describe_log_groups", "ThrottlingException"),
        ("throttling", "iam", "list_roles", "Throttling"),
        ("internal-error", "sagemaker", "list_models", "InternalFailure"),
    ],
)
def test_each_service_words_a_fault_in_its_own_way(
    aws: Account, fault: str, service: str, operation: str, code: str
) -> None:
    aws.emulator.faults(f"{fault},service={service},count=1")
    assert code_of(getattr(aws.client(service, **ONCE), operation)) == code


def test_a_role_that_may_not_be_passed_is_named(aws: Account) -> None:
    aws.emulator.faults("access-denied,operation=CreateTrainingJob,action=iam:PassRole,count=1")
    with pytest.raises(ClientError, match="not authorized to perform: iam:PassRole"):
        aws.client("sagemaker", **ONCE).create_training_job(**aws.training("true"))


def test_an_interrupted_spot_job_starts_again_with_its_checkpoint(aws: Account) -> None:
    aws.emulator.faults("interruption,line=saved *,count=1")
    job = aws.trained(
        "if [ -e /opt/ml/checkpoints/step ]; then echo again from $(cat /opt/ml/checkpoints/step); exit 0; fi;"
        " echo 7 > /opt/ml/checkpoints/step; echo saved 7; touch /opt/ml/model/lost; sleep 600",
        CheckpointConfig={"S3Uri": f"s3://{aws.bucket}/checkpoints"},
        **SPOT,
    )
    name = job["TrainingJobName"]
    assert job["TrainingJobStatus"] == "Completed"
    assert secondary(job) == [
        "Starting",
        "Downloading",
        "Training",
        "Interrupted",
        "Starting",
        "Downloading",
        "Training",
        "Uploading",
        "Completed",
    ]
    assert aws.log(name)[-1] == "again from 7"
    assert aws.archive(f"out/{name}/output/model.tar.gz") == {}


def test_an_interruption_can_come_after_some_seconds(aws: Account) -> None:
    aws.emulator.faults("interruption,after=0.1,count=1,final=yes")
    assert aws.trained("sleep 600", **SPOT)["SecondaryStatus"] == "Interrupted"


def test_a_final_interruption_stops_the_job(aws: Account) -> None:
    aws.emulator.faults("interruption,final=yes,count=1")
    job = aws.trained("sleep 600", **SPOT)
    assert (job["TrainingJobStatus"], job["SecondaryStatus"]) == ("Stopped", "Interrupted")


def test_a_job_that_is_not_spot_is_never_interrupted(aws: Account) -> None:
    aws.emulator.faults("interruption")
    assert aws.trained("true")["TrainingJobStatus"] == "Completed"


def test_a_fault_that_cannot_be_meant_is_refused(aws: Account) -> None:
    import urllib.error

    with pytest.raises(urllib.error.HTTPError) as caught:
        aws.emulator.faults("earthquake")
    assert b"unknown fault 'earthquake'" in caught.value.read()
    caught.value.close()


def test_simulated_permissions_know_of_denied_access(aws: Account) -> None:
    aws.emulator.faults("access-denied,service=s3,operation=GetObject")
    found = aws.client("iam").simulate_principal_policy(
        PolicySourceArn=aws.emulator.role, ActionNames=["s3:GetObject", "s3:PutObject"]
    )
    assert [item["EvalDecision"] for item in found["EvaluationResults"]] == ["implicitDeny", "allowed"]
