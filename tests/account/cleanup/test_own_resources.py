"""What `gpuproof deploy`, `notebook`, `transform` and `run --on ec2` create, as `gpuproof cleanup` lists and deletes it."""

from __future__ import annotations

import json
import time
import venv
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gpuproof.backends.remote.iam.policy import Scope, role_policy
from support.archives import archive
from support.aws_emulator import RunningEmulator, running_emulator
from support.cli_sandbox import CliSandbox, until
from support.emulator_models import SERVING_IMAGE
from support.endpoint_sandbox import ECHO, IMAGE, SCHEDULER_TRUST

pytestmark = pytest.mark.slow

JOB = """
name: train
entry_point: train.py
framework: pytorch
instance_type: g5.xlarge
max_duration: 1h
"""
MACHINE = """
kind: machine
name: workbench
source_dir: .
framework: pytorch
instance_type: g5.xlarge
idle_timeout: 1h
max_duration: 2h
"""
WAITS = """
import time

def model_fn(model_dir):
    return "m"

def transform_fn(model, body, content_type, accept):
    time.sleep(600)
"""


@pytest.fixture(scope="module")
def emulator(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningEmulator]:
    # Notebook instances without Jupyter, which takes seconds to start.
    environment = tmp_path_factory.mktemp("python") / "env"
    venv.create(environment, symlinks=True)
    python = str(environment / "bin" / "python3")
    with running_emulator(
        tmp_path_factory.mktemp("aws"), role=True, stop_grace=1.0, python=python
    ) as running:
        yield running


@pytest.fixture
def cli(emulator: RunningEmulator, tmp_path_factory: pytest.TempPathFactory) -> Iterator[CliSandbox]:
    """Commands with an empty account, next to resources of another tool, which stay."""
    folder = tmp_path_factory.mktemp("cli")
    home, project = folder / "home", folder / "project"
    home.mkdir()
    project.mkdir()
    emulator.reset()
    environment = {
        **emulator.credentials,
        "GPUPROOF_ROLE_ARN": emulator.new_role("own-resources"),
        "GPUPROOF_CACHE_DIR": str(tmp_path_factory.getbasetemp() / "own-resources-cache"),
        "NO_COLOR": "1",
    }
    yield CliSandbox(home, project, environment)
    emulator.reset()


def done(cli: CliSandbox, *words: str) -> str:
    """The output of a command that succeeds."""
    ended = cli.gpuproof(*words)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return ended.stdout


def listed(cli: CliSandbox, *words: str) -> dict[str, dict[str, Any]]:
    """What `gpuproof cleanup` lists, by kind and name."""
    document = json.loads(done(cli, "cleanup", "--all", *words, "--format", "json"))
    return {resource["key"].removeprefix("us-east-1/"): resource for resource in document["resources"]}


def costs(cli: CliSandbox) -> dict[str, dict[str, Any]]:
    """What `gpuproof cost` counts, by name."""
    return {entry["id"]: entry for entry in json.loads(done(cli, "cost", "--format", "json"))["entries"]}


def deploy(cli: CliSandbox, emulator: RunningEmulator, name: str, *words: str) -> None:
    cli.write(f"{name}/code/inference.py", ECHO)
    flags = ("--name", name, "--instance-type", "ml.g5.xlarge", "--image", IMAGE, "--no-require-gpu")
    done(cli, "deploy", str(cli.project / name), *flags, *words)


def schedule_role(emulator: RunningEmulator) -> str:
    trust = json.dumps(SCHEDULER_TRUST)
    iam = emulator.client("iam")
    made = iam.create_role(RoleName="schedules", AssumeRolePolicyDocument=trust)
    policy = json.dumps(role_policy(Scope(backend="scheduler")))
    iam.put_role_policy(RoleName="schedules", PolicyName="gpuproof", PolicyDocument=policy)
    return made["Role"]["Arn"]


def account_of(emulator: RunningEmulator) -> dict[str, list[str]]:
    """Everything that these commands create, by kind."""
    api, scheduler = emulator.client("sagemaker"), emulator.client("scheduler")
    scaling, ec2, s3 = (emulator.client(name) for name in ("application-autoscaling", "ec2", "s3"))
    targets = scaling.describe_scalable_targets(ServiceNamespace="sagemaker")["ScalableTargets"]
    instances = ec2.describe_instances(
        Filters=[{"Name": "instance-state-name", "Values": ["pending", "running"]}]
    )
    keys = [
        item["Key"]
        for bucket in s3.list_buckets()["Buckets"]
        for item in s3.list_objects_v2(Bucket=bucket["Name"]).get("Contents", ())
    ]
    found = {
        "endpoint": [endpoint["EndpointName"] for endpoint in api.list_endpoints()["Endpoints"]],
        "config": [config["EndpointConfigName"] for config in api.list_endpoint_configs()["EndpointConfigs"]],
        "model": [model["ModelName"] for model in api.list_models()["Models"]],
        "schedule": [schedule["Name"] for schedule in scheduler.list_schedules()["Schedules"]],
        "scaling": [target["ResourceId"] for target in targets],
        "notebook": [
            f"{instance['NotebookInstanceName']} {instance['NotebookInstanceStatus']}"
            for instance in api.list_notebook_instances()["NotebookInstances"]
        ],
        "lifecycle": [
            config["NotebookInstanceLifecycleConfigName"]
            for config in api.list_notebook_instance_lifecycle_configs()["NotebookInstanceLifecycleConfigs"]
        ],
        "instance": [
            instance["InstanceId"] for group in instances["Reservations"] for instance in group["Instances"]
        ],
        "group": [
            group["GroupId"]
            for group in ec2.describe_security_groups()["SecurityGroups"]
            if group["GroupName"] == "gpuproof"
        ],
        "file": [key for key in keys if "/endpoints/" in key],
    }
    return {kind: sorted(names) for kind, names in found.items() if names}


def test_an_endpoint_goes_with_everything_that_deploy_created(
    cli: CliSandbox, emulator: RunningEmulator
) -> None:
    deploy(cli, emulator, "other")
    before = account_of(emulator)
    flags = ("--ttl", "2h", "--schedule-role", schedule_role(emulator), "--max-instances", "2")
    deploy(cli, emulator, "chat", *flags)
    deploy(cli, emulator, "chat", *flags)  # an update: the configuration before is kept for a rollback
    created = account_of(emulator)
    assert [len(created[kind]) for kind in ("endpoint", "config", "model", "schedule")] == [2, 3, 3, 1]
    assert created["scaling"] == ["endpoint/chat/variant/AllTraffic"]
    found = listed(cli)
    assert sorted(found) == ["endpoint/chat", "endpoint/other"]
    chat = found["endpoint/chat"]
    assert chat["usd_per_day"] == pytest.approx(24 * 1.408)
    assert chat["by_gpuproof"]
    assert chat["idle_seconds"] >= 0
    said = "delete, with its configuration, model, files, schedule and automatic scaling"
    assert chat["what_happens"] == said
    done(cli, "cleanup", "chat", "--delete", "--yes")
    assert account_of(emulator) == before


def test_the_previous_configuration_stays_for_a_rollback(cli: CliSandbox, emulator: RunningEmulator) -> None:
    deploy(cli, emulator, "chat")
    deploy(cli, emulator, "chat")
    before = account_of(emulator)
    output = done(cli, "cleanup", "--all", "--gpuproof", "--kind", "model", "--delete", "--yes")
    assert "Nothing is selected" in output
    assert account_of(emulator) == before
    done(cli, "deploy", "--rollback", "chat")


def test_what_the_schedule_leaves_is_listed_and_deleted(cli: CliSandbox, emulator: RunningEmulator) -> None:
    deploy(cli, emulator, "chat", "--ttl", "2h", "--schedule-role", schedule_role(emulator))
    (ran,) = emulator.run_schedules(at=time.time() + 3 * 3600)
    assert ran["error"] == ""
    until(lambda: "endpoint" not in account_of(emulator), "the deletion of the endpoint")
    found = listed(cli)
    kinds = sorted(match["kind"] for match in found.values())
    assert kinds == ["endpoint-config", "model", "schedule"]
    done(cli, "cleanup", "--gpuproof", "--delete", "--yes")
    assert account_of(emulator) == {}


def test_a_notebook_instance_is_stopped_then_deleted(cli: CliSandbox, emulator: RunningEmulator) -> None:
    done(cli, "notebook", "create", "nb", "--instance-type", "ml.g5.xlarge")
    done(cli, "notebook", "create", "other", "--instance-type", "ml.g4dn.xlarge", "--idle-timeout", "2h")
    found = listed(cli)
    assert sorted(found) == ["notebook/nb", "notebook/other"]
    assert found["notebook/nb"]["usd_per_day"] == pytest.approx(33.84)
    assert found["notebook/nb"]["by_gpuproof"]
    counted = costs(cli)
    assert {(item["backend"], item["running"]) for item in counted.values()} == {("notebook", True)}
    assert sorted(counted) == ["nb", "other"]
    assert counted["nb"]["usd"] == pytest.approx(33.84 * counted["nb"]["billed_seconds"] / 86_400)
    done(cli, "cleanup", "nb", "--delete", "--yes")
    until(lambda: "nb Stopped" in account_of(emulator)["notebook"], "the stop")
    assert "other InService" in account_of(emulator)["notebook"]
    assert sorted(costs(cli)) == ["other"]
    # Its disk holds data: no filter selects it.
    assert "it holds data" in done(cli, "cleanup", "--gpuproof", "--kind", "notebook", "--delete", "--yes")
    until(lambda: "nb Stopped" in account_of(emulator)["notebook"], "nb")
    done(cli, "cleanup", "nb", "--delete", "--yes")
    until(lambda: not any("nb " in item for item in account_of(emulator)["notebook"]), "the deletion")
    (lifecycle,) = [key for key in listed(cli) if key.startswith("lifecycle-config/")]
    done(cli, "cleanup", lifecycle, "--delete", "--yes")
    assert len(account_of(emulator)["lifecycle"]) == 1  # that of the other notebook instance


def test_runs_and_machines_on_ec2_are_terminated_by_name(
    cli: CliSandbox, emulator: RunningEmulator, tmp_path: Path
) -> None:
    cli.write("train.py", "print('x')\n")
    for job in (JOB, MACHINE):
        cli.write("gpuproof.yaml", job)
        done(cli, "run", "--on", "ec2", "--detach", "--format", "json")
    found = listed(cli)
    assert sorted(match["kind"] for match in found.values()) == ["instance", "instance"]
    machine = next(match for match in found.values() if match["tags"]["gpuproof:kind"] == "machine")
    assert machine["usd_per_day"] == pytest.approx(24 * 1.006)
    assert "gpuproof stop" in machine["note"]
    # Both end by themselves.
    assert "ends by itself" in done(cli, "cleanup", "--gpuproof", "--delete", "--yes")
    assert len(account_of(emulator)["instance"]) == 2
    done(cli, "cleanup", machine["id"], "--delete", "--yes")
    (left,) = account_of(emulator)["instance"]
    assert left != machine["id"]
    done(cli, "cleanup", left, "--delete", "--yes")
    assert "instance" not in account_of(emulator)
    (group,) = [key for key in listed(cli) if key.startswith("security-group/")]
    done(cli, "cleanup", group, "--delete", "--yes")
    assert "group" not in account_of(emulator)


def test_the_model_of_a_running_transform_job_stays(cli: CliSandbox, emulator: RunningEmulator) -> None:
    bucket, s3 = emulator.bucket("rows"), emulator.client("s3")
    s3.put_object(Bucket=bucket, Key="model.tar.gz", Body=archive(**{"code/inference.py": WAITS.encode()}))
    s3.put_object(Bucket=bucket, Key="in/x.csv", Body=b"a\n")
    words = (f"s3://{bucket}/model.tar.gz", "--image", SERVING_IMAGE, "--instance-type", "ml.g5.xlarge")
    places = ("--input", f"s3://{bucket}/in/", "--output", f"s3://{bucket}/out")
    name = done(cli, "transform", *words, *places, "--detach").strip()
    found = listed(cli)
    assert sorted(found) == [f"transform-job/{name}"]
    assert found[f"transform-job/{name}"]["usd_per_day"] > 10
    assert found[f"transform-job/{name}"]["by_gpuproof"]
    assert "ends by itself" in done(cli, "cleanup", "--gpuproof", "--delete", "--yes")
    assert account_of(emulator) == {"model": [name]}
    until(lambda: name in costs(cli), "the start of its instances")
    assert costs(cli)[name]["running"]
    done(cli, "cleanup", f"transform-job/{name}", "--delete", "--yes")
    job = emulator.client("sagemaker").describe_transform_job
    until(lambda: job(TransformJobName=name)["TransformJobStatus"] == "Stopped", "the stop")
    assert sorted(listed(cli)) == [f"model/{name}"]
    counted = costs(cli)[name]
    assert (counted["backend"], counted["running"]) == ("transform", False)
    assert counted["usd"] == pytest.approx(1.408 * counted["billed_seconds"] / 3600, rel=0.01)
    assert costs(cli)[name] == counted
    done(cli, "cleanup", "--gpuproof", "--delete", "--yes")
    assert account_of(emulator) == {}
