"""Training jobs run their scripts, and have SageMaker's statuses."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from gpuproof_emulator.execution.host import ContainerOutcome
from gpuproof_emulator.execution.jobs.training_job import add_transition, end_transition, failure_reason
from support.archives import archive
from support.aws_emulator import running_emulator
from support.emulator_jobs import IMAGE, TWO_HOSTS, Account, channel, metric, secondary

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(
    ("outcome", "message", "reason"),
    [
        (ContainerOutcome(1), "boom", "AlgorithmError: boom, exit code: 1"),
        (ContainerOutcome(137), "", "AlgorithmError: , exit code: 137"),
        (
            ContainerOutcome(None, "x: No such file"),
            "",
            "AlgorithmError: CannotStartContainerError. Please make sure the container can be run: x: No such file",
        ),
        (ContainerOutcome(None, "no /opt/ml", internal=True), "", "InternalServerError: no /opt/ml"),
    ],
)
def test_failure_reasons_have_sagemakers_form(outcome: ContainerOutcome, message: str, reason: str) -> None:
    assert failure_reason(outcome, message) == reason


def test_a_job_reads_its_channel_and_its_model_comes_to_s3(aws: Account) -> None:
    data = aws.put("in/a.txt", "hello")
    job = aws.trained(
        "cp /opt/ml/input/data/train/a.txt /opt/ml/model/", InputDataConfig=[channel("train", data)]
    )
    assert job["TrainingJobStatus"] == "Completed"
    where = f"out/{job['TrainingJobName']}/output/model.tar.gz"
    assert job["ModelArtifacts"]["S3ModelArtifacts"] == f"s3://{aws.bucket}/{where}"
    assert aws.archive(where) == {"a.txt": "hello"}


def test_a_job_goes_through_sagemakers_states(aws: Account) -> None:
    job = aws.trained("true")
    assert secondary(job) == ["Starting", "Downloading", "Training", "Uploading", "Completed"]
    assert all(step["EndTime"] >= step["StartTime"] for step in job["SecondaryStatusTransitions"])
    assert job["CreationTime"] <= job["TrainingStartTime"] <= job["TrainingEndTime"]
    assert job["BillableTimeInSeconds"] == job["TrainingTimeInSeconds"] >= 1


def test_no_status_ends_before_it_began(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine's clock may be set back while a job runs."""
    times = iter([99.0, 101.25, 98.5, 101.0])
    monkeypatch.setattr("gpuproof_emulator.execution.jobs.training_job.now", lambda: next(times))
    document: dict[str, Any] = {"SecondaryStatusTransitions": [{"Status": "Starting", "StartTime": 100.0}]}
    for name in ("Downloading", "Training", "Uploading"):
        add_transition(document, name)
    assert end_transition(document) == 101.25
    steps = [(step["StartTime"], step["EndTime"]) for step in document["SecondaryStatusTransitions"]]
    assert steps == [(100.0, 100.0), (100.0, 101.25), (101.25, 101.25), (101.25, 101.25)]
    assert document["SecondaryStatus"] == "Uploading"


def test_a_failure_file_becomes_the_failure_reason_with_the_exit_code(aws: Account) -> None:
    job = aws.trained("printf 'ValueError: no data' > /opt/ml/output/failure; exit 3")
    assert job["TrainingJobStatus"] == job["SecondaryStatus"] == "Failed"
    assert job["FailureReason"] == "AlgorithmError: ValueError: no data, exit code: 3"


def test_a_long_failure_file_is_cut_and_keeps_the_exit_code(aws: Account) -> None:
    job = aws.trained("head -c 5000 /dev/zero | tr '\\0' x > /opt/ml/output/failure; exit 1")
    assert len(job["FailureReason"]) == 1024
    assert job["FailureReason"].endswith("x, exit code: 1")


def test_without_a_failure_file_only_the_exit_code_is_reported(aws: Account) -> None:
    assert aws.trained("kill -KILL $$")["FailureReason"] == "AlgorithmError: , exit code: 137"


def test_a_command_that_is_not_there_cannot_start_the_container(aws: Account) -> None:
    specification = {
        "TrainingImage": IMAGE,
        "TrainingInputMode": "File",
        "ContainerEntrypoint": ["/no/such/program"],
    }
    job = aws.trained("", AlgorithmSpecification=specification)
    assert "CannotStartContainerError" in job["FailureReason"]
    assert "/no/such/program" in job["FailureReason"]


def test_a_failed_job_still_sends_its_output(aws: Account) -> None:
    job = aws.trained("echo why > /opt/ml/output/data/why.txt; exit 1")
    where = f"out/{job['TrainingJobName']}/output/"
    assert aws.keys(where) == [f"{where}output.tar.gz"]
    assert aws.archive(f"{where}output.tar.gz") == {"why.txt": "why\n"}


def test_configuration_files_are_sagemakers_own(aws: Account) -> None:
    job = aws.trained(
        "cp /opt/ml/input/config/*.json /opt/ml/model/",
        HyperParameters={"epochs": "5", "name": '"text"'},
        InputDataConfig=[channel("train", aws.put("in/a"), ContentType="text/csv")],
    )
    files = aws.archive(f"out/{job['TrainingJobName']}/output/model.tar.gz")
    assert json.loads(files["hyperparameters.json"]) == {"epochs": "5", "name": '"text"'}
    assert json.loads(files["inputdataconfig.json"]) == {
        "train": {
            "ContentType": "text/csv",
            "TrainingInputMode": "File",
            "S3DistributionType": "FullyReplicated",
            "RecordWrapperType": "None",
        }
    }
    assert json.loads(files["init-config.json"])["inputMode"] == "FILE"
    assert json.loads(files["resourceconfig.json"]) == {
        "current_host": "algo-1",
        "current_instance_type": "ml.g5.xlarge",
        "current_group_name": "homogeneousCluster",
        "hosts": ["algo-1"],
        "instance_groups": [
            {
                "instance_group_name": "homogeneousCluster",
                "instance_type": "ml.g5.xlarge",
                "hosts": ["algo-1"],
            }
        ],
        "network_interface_name": "eth0",
    }


def test_the_source_of_a_toolkit_job_is_its_module_dir(aws: Account) -> None:
    source = aws.put(
        "code/s.tar.gz", archive(**{"train.py": b"import os; print(os.environ['SM_MODULE_DIR'])"})
    )
    job = aws.trained(
        "",
        AlgorithmSpecification={"TrainingImage": IMAGE, "TrainingInputMode": "File"},
        HyperParameters={
            "sagemaker_program": '"train.py"',
            "sagemaker_submit_directory": f'"{source}"',
            "sagemaker_container_log_level": "20",
            "sagemaker_region": '"us-east-1"',
            "sagemaker_job_name": '"job"',
        },
    )
    assert source in aws.log(job["TrainingJobName"])


def test_environment_and_arguments_reach_the_container(aws: Account) -> None:
    specification = {
        "TrainingImage": IMAGE,
        "TrainingInputMode": "File",
        "ContainerEntrypoint": ["/bin/sh", "-c", 'echo "$COLOUR $1 $TRAINING_JOB_NAME $AWS_REGION"', "sh"],
        "ContainerArguments": ["two words"],
    }
    job = aws.trained("", AlgorithmSpecification=specification, Environment={"COLOUR": "green"})
    name = job["TrainingJobName"]
    assert aws.log(name) == [f"green two words {name} us-east-1"]


def test_python3_is_a_real_interpreter_and_its_boto3_calls_the_emulator_as_the_role(aws: Account) -> None:
    code = "import boto3; print(boto3.client('sts').get_caller_identity()['Arn'])"
    job = aws.trained(f'python3 -c "{code}"')
    assert "assumed-role/SageMakerRole/" in aws.log(job["TrainingJobName"])[0]


def test_network_isolation_provides_no_credentials(aws: Account) -> None:
    job = aws.trained('echo "[$AWS_ACCESS_KEY_ID]"', EnableNetworkIsolation=True)
    assert aws.log(job["TrainingJobName"]) == ["[]"]


def test_nothing_of_the_emulators_own_environment_reaches_the_container(aws: Account) -> None:
    job = aws.trained("env | cut -d= -f1 | grep -E '^(GPUPROOF|PYTEST|VIRTUAL_ENV|PYTHONPATH)' || echo none")
    assert aws.log(job["TrainingJobName"]) == ["none"]


def test_metrics_keep_the_last_value_that_their_expressions_found(aws: Account) -> None:
    specification = {
        "TrainingImage": IMAGE,
        "TrainingInputMode": "File",
        "ContainerEntrypoint": ["/bin/sh", "-c", "echo loss=0.9; echo loss=0.25; echo acc: none"],
        "MetricDefinitions": [
            {"Name": "loss", "Regex": "loss=([0-9.]+)"},
            {"Name": "accuracy", "Regex": "acc: ([0-9.]+)"},
        ],
    }
    assert metric(aws.trained("", AlgorithmSpecification=specification)) == {"loss": 0.25}


def test_metrics_are_in_cloudwatch(aws: Account) -> None:
    specification = {
        **aws.training("echo loss=4; echo loss=2; echo loss=nan")["AlgorithmSpecification"],
        "MetricDefinitions": [{"Name": "loss", "Regex": "loss=(\\S+)"}],
    }
    job = aws.trained("", AlgorithmSpecification=specification)
    found = aws.client("cloudwatch").get_metric_statistics(
        Namespace="/aws/sagemaker/TrainingJobs",
        MetricName="loss",
        Dimensions=[{"Name": "TrainingJobName", "Value": job["TrainingJobName"]}],
        StartTime=job["TrainingStartTime"] - timedelta(minutes=1),
        EndTime=job["TrainingEndTime"] + timedelta(minutes=1),
        Period=3600,
        Statistics=["Sum"],
    )
    assert sum(point["Sum"] for point in found["Datapoints"]) == 6


def test_lines_and_their_order_arrive_in_cloudwatch_logs(aws: Account) -> None:
    job = aws.trained("echo one; echo; echo two >&2; printf 'no newline'")
    assert aws.log(job["TrainingJobName"]) == ["one", " ", "two", "no newline"]


def test_a_manifest_names_the_files_of_a_channel(aws: Account) -> None:
    for name in ("a", "b", "c"):
        aws.put(f"in/{name}.txt", name)
    manifest = aws.put("lists/m.json", json.dumps([{"prefix": f"s3://{aws.bucket}/in/"}, "a.txt", "c.txt"]))
    job = aws.trained(
        "ls /opt/ml/input/data/train",
        InputDataConfig=[channel("train", manifest, S3DataType="ManifestFile")],
    )
    assert aws.log(job["TrainingJobName"]) == ["a.txt", "c.txt"]


def test_a_manifest_that_lists_a_missing_file_fails_the_download(aws: Account) -> None:
    manifest = aws.put(
        "lists/missing.json", json.dumps([{"prefix": f"s3://{aws.bucket}/in/"}, "missing.txt"])
    )
    job = aws.trained("true", InputDataConfig=[channel("train", manifest, S3DataType="ManifestFile")])
    assert job["FailureReason"].startswith("ClientError: Data download failed:")
    assert secondary(job)[-2:] == ["Downloading", "Failed"]


def test_hosts_have_disks_of_their_own_and_know_each_other(aws: Account) -> None:
    for number in range(4):
        aws.put(f"in/{number}.txt")
    job = aws.trained(
        "grep -o 'current_host\": \"[a-z0-9-]*' /opt/ml/input/config/resourceconfig.json; ls /opt/ml/input/data/train;"
        " touch /opt/ml/model/$(ls /opt/ml/input/data/train | head -1)",
        InputDataConfig=[channel("train", f"s3://{aws.bucket}/in/", S3DataDistributionType="ShardedByS3Key")],
        ResourceConfig=TWO_HOSTS,
    )
    name = job["TrainingJobName"]
    assert aws.log(name, "algo-1") == ['current_host": "algo-1', "0.txt", "2.txt"]
    assert aws.log(name, "algo-2") == ['current_host": "algo-2', "1.txt", "3.txt"]
    assert sorted(aws.archive(f"out/{name}/output/model.tar.gz")) == ["0.txt", "1.txt"]


def test_one_host_that_fails_takes_the_others_down_and_its_reason_is_the_jobs(aws: Account) -> None:
    job = aws.trained(
        "cd /opt/ml/output; [ $(hostname) = algo-2 ] && { echo cause > failure; exit 7; };"
        "trap 'echo stopped, as asked > failure; exit 1' TERM; while true; do sleep 0.05; done",
        ResourceConfig=TWO_HOSTS,
    )
    assert job["FailureReason"] == "AlgorithmError: cause, exit code: 7, host: algo-2"


def test_a_host_that_fails_because_it_has_lost_another_is_not_the_cause(aws: Account) -> None:
    lose = (
        "import socket, sys\n"
        "if socket.gethostname() == 'algo-2':\n"
        "    listening = socket.create_server(('', 7777))\n"
        "    connection, _ = listening.accept()\n"
        "    open('/opt/ml/output/failure', 'w').write('ValueError: cause')\n"
        "    connection.close()\n"
        "    import signal; signal.signal(signal.SIGTERM, lambda *_: sys.exit(7)); signal.pause()\n"
        "while True:\n"
        "    try: connection = socket.create_connection(('algo-2', 7777)); break\n"
        "    except ConnectionRefusedError: pass\n"
        "connection.recv(1); open('/opt/ml/output/failure', 'w').write('lost algo-2'); sys.exit(1)\n"
    )
    job = aws.trained(
        "exec python3 /opt/ml/input/data/code/lose.py",
        ResourceConfig=TWO_HOSTS,
        InputDataConfig=[channel("code", aws.put("code/lose.py", lose))],
    )
    assert job["FailureReason"] == "AlgorithmError: ValueError: cause, exit code: 7, host: algo-2"


def test_a_job_that_is_stopped_may_end_in_order_and_keeps_its_model(aws: Account) -> None:
    name = aws.train(
        "trap 'echo saved > /opt/ml/model/m; exit 0' TERM; echo ready; while true; do sleep 0.05; done"
    )
    aws.in_state(name, "Training")
    _wait_for_log_line(aws, name, "ready")
    aws.client("sagemaker").stop_training_job(TrainingJobName=name)
    assert aws.job(name)["TrainingJobStatus"] in ("Stopping", "Stopped")
    job = aws.ended(name)
    assert (job["TrainingJobStatus"], job["SecondaryStatus"]) == ("Stopped", "Stopped")
    assert aws.archive(f"out/{name}/output/model.tar.gz") == {"m": "saved\n"}
    assert "FailureReason" not in job


def test_a_job_that_does_not_listen_is_killed(tmp_path: Path) -> None:
    # The shared emulator waits for a stopped job as long as a slow machine needs.
    with running_emulator(tmp_path, stop_grace=0.5) as emulator:
        aws = Account(emulator, emulator.bucket(), "stubborn")
        name = aws.train("trap '' TERM; echo ready; while true; do sleep 0.05; done")
        _wait_for_log_line(aws, name, "ready")
        aws.client("sagemaker").stop_training_job(TrainingJobName=name)
        assert aws.ended(name)["TrainingJobStatus"] == "Stopped"


def test_a_job_that_takes_too_long_is_stopped(aws: Account) -> None:
    job = aws.trained("sleep 600", StoppingCondition={"MaxRuntimeInSeconds": 1})
    assert (job["TrainingJobStatus"], job["SecondaryStatus"]) == ("Stopped", "MaxRuntimeExceeded")


def test_checkpoints_come_from_s3_and_go_there(aws: Account) -> None:
    aws.put("checkpoints/old.txt", "1")
    job = aws.trained(
        "cat /opt/ml/checkpoints/old.txt; echo 2 > /opt/ml/checkpoints/new.txt",
        CheckpointConfig={"S3Uri": f"s3://{aws.bucket}/checkpoints"},
    )
    assert aws.log(job["TrainingJobName"]) == ["1"]
    assert aws.get("checkpoints/new.txt") == "2\n"


def test_checkpoints_go_to_s3_while_the_job_runs(aws: Account) -> None:
    from support.cli_sandbox import until

    name = aws.train(
        "echo 1 > /opt/ml/checkpoints/one.txt; sleep 600",
        CheckpointConfig={"S3Uri": f"s3://{aws.bucket}/live/"},
    )
    until(lambda: aws.keys("live/") == ["live/one.txt"], "the checkpoint on S3")
    aws.client("sagemaker").stop_training_job(TrainingJobName=name)
    aws.ended(name)


def test_uncompressed_output_keeps_its_files(aws: Account) -> None:
    job = aws.trained(
        "echo m > /opt/ml/model/m.txt",
        OutputDataConfig={"S3OutputPath": f"s3://{aws.bucket}/plain", "CompressionType": "NONE"},
    )
    assert aws.keys("plain/") == [f"plain/{job['TrainingJobName']}/output/model/m.txt"]
    assert job["ModelArtifacts"]["S3ModelArtifacts"].endswith("/output/model/")


def test_an_output_bucket_that_is_not_there_fails_the_job(aws: Account) -> None:
    job = aws.trained("true", OutputDataConfig={"S3OutputPath": "s3://no-such-bucket-anywhere/out"})
    assert job["FailureReason"].startswith("ClientError: Artifact upload failed:")
    assert "NoSuchBucket" in job["FailureReason"]


def test_spot_training_is_billed_at_less(aws: Account) -> None:
    job = aws.trained(
        "sleep 1.2",
        EnableManagedSpotTraining=True,
        StoppingCondition={"MaxRuntimeInSeconds": 3600, "MaxWaitTimeInSeconds": 7200},
    )
    assert job["BillableTimeInSeconds"] < job["TrainingTimeInSeconds"]


def test_a_warm_pool_is_taken_over_by_the_next_job_of_its_kind(aws: Account) -> None:
    warm = {
        "InstanceType": "ml.g5.2xlarge",
        "InstanceCount": 1,
        "VolumeSizeInGB": 31,
        "KeepAlivePeriodInSeconds": 600,
    }
    first = aws.trained("true", ResourceConfig=warm)
    assert first["WarmPoolStatus"]["Status"] == "Available"
    second = aws.trained("true", ResourceConfig=warm)
    taken = aws.job(first["TrainingJobName"])["WarmPoolStatus"]
    assert (taken["Status"], taken["ReusedByJob"]) == ("Reused", second["TrainingJobName"])


def _wait_for_log_line(aws: Account, name: str, line: str) -> None:
    from support.cli_sandbox import until

    def look() -> bool:
        try:
            return line in aws.log(name)
        except (IndexError, aws.client("logs").exceptions.ResourceNotFoundException):
            return False

    until(look, f"{line} in the log of {name}")
