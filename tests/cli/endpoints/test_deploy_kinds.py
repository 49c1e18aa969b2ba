"""Scaled, serverless, asynchronous and captured endpoints: deployed, invoked and deleted by the programs, on the emulator."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from support.aws_emulator import RunningEmulator, running_emulator
from support.cli_sandbox import until
from support.deploy_program import Program
from support.endpoint_sandbox import IMAGE
from support.sagemaker_sandbox import injected_faults

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def emulator(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningEmulator]:
    with running_emulator(tmp_path_factory.mktemp("aws"), stop_grace=1.0) as running:
        yield running


@pytest.fixture
def program(emulator: RunningEmulator, tmp_path: Path) -> Program:
    return Program(emulator, tmp_path)


SCALED = ("--no-require-gpu", "--max-instances", "3", "--target-concurrency", "5")


def test_a_scaled_endpoint_has_one_policy_and_delete_ends_the_scaling(program: Program) -> None:
    succeeds(program.deploy("scaled", *SCALED))
    (target,) = targets(program, "scaled")
    assert (target["MinCapacity"], target["MaxCapacity"]) == (1, 3)
    (policy,) = policies(program, "scaled")
    assert policy["TargetTrackingScalingPolicyConfiguration"]["TargetValue"] == 5.0
    assert predict(program, "scaled", [1]) == [1]
    succeeds(program.run("delete", "scaled"))
    assert everything(program, "scaled") == []


@pytest.mark.parametrize("operation", ["RegisterScalableTarget", "PutScalingPolicy"])
def test_a_deployment_that_cannot_be_scaled_leaves_nothing(program: Program, operation: str) -> None:
    name = f"unscaled-{operation[:3].lower()}"
    denied = f"access-denied,service=application-autoscaling,operation={operation}"
    with injected_faults(program.emulator, denied):
        code, _, errors = program.deploy(name, *SCALED)
    assert code == 5, errors
    assert "AccessDenied" in errors
    assert everything(program, name) == []


def test_the_scaling_of_an_endpoint_that_was_deleted_by_hand_is_not_needed_for_delete(
    program: Program,
) -> None:
    succeeds(program.deploy("by-hand", *SCALED))
    program.emulator.client("sagemaker").delete_endpoint(EndpointName="by-hand")
    until(lambda: program.endpoint_is_gone("by-hand"), "the end of the endpoint")
    succeeds(program.run("delete", "by-hand"))
    assert everything(program, "by-hand") == []


def test_a_serverless_endpoint_is_deployed_invoked_and_deleted(program: Program) -> None:
    flags = ("--serverless", "memory=2048,concurrency=2", "--name", "serverless", "--image", IMAGE)
    succeeds(program.run("deploy", str(program.model), *flags))
    found = program.emulator.client("sagemaker").describe_endpoint(EndpointName="serverless")
    (variant,) = found["ProductionVariants"]
    assert variant["CurrentServerlessConfig"] == {"MemorySizeInMB": 2048, "MaxConcurrency": 2}
    assert predict(program, "serverless", {"a": 1}) == {"a": 1}
    succeeds(program.run("delete", "serverless"))
    assert everything(program, "serverless") == []


def test_an_asynchronous_endpoint_writes_its_answers_which_outlive_it(program: Program) -> None:
    address = f"s3://{program.bucket}/answers"
    succeeds(program.deploy("queued", "--async", address, "--no-require-gpu"))
    assert predict(program, "queued", [1, 2]) == [1, 2]
    assert len(objects(program, "answers/")) == 1
    succeeds(program.run("delete", "queued"))
    assert everything(program, "queued") == []
    assert len(objects(program, "answers/")) == 1


def test_captured_requests_and_answers_outlive_the_endpoint(program: Program) -> None:
    flags = ("--data-capture", f"s3://{program.bucket}/captured", "--no-require-gpu")
    succeeds(program.deploy("captured", *flags))
    assert predict(program, "captured", [41, 42]) == [41, 42]
    until(lambda: objects(program, "captured/captured/"), "the captured data")
    succeeds(program.run("delete", "captured"))
    assert everything(program, "captured") == []
    records = "".join(text(program, key) for key in objects(program, "captured/captured/"))
    captured = [json.loads(line)["captureData"] for line in records.splitlines()]
    assert any("[41, 42]" in item["endpointInput"]["data"] for item in captured)
    assert any("[41, 42]" in item["endpointOutput"]["data"] for item in captured)


def succeeds(done: tuple[int, str, str]) -> None:
    code, _, errors = done
    assert code == 0, errors


def predict(program: Program, name: str, value: Any) -> Any:
    code, out, errors = program.run("predict", name, "--data", json.dumps(value))
    assert code == 0, errors
    return json.loads(out)


def everything(program: Program, name: str) -> list[str]:
    """All that exists of an endpoint, with its files and its scaling."""
    files = objects(program, f"gpuproof/endpoints/{name}-")
    scaling = [*targets(program, name), *policies(program, name)]
    return [*program.left(name), *files, *map(str, scaling)]


def targets(program: Program, name: str) -> list[dict[str, Any]]:
    client = program.emulator.client("application-autoscaling")
    found = client.describe_scalable_targets(ServiceNamespace="sagemaker")["ScalableTargets"]
    return [match for match in found if match["ResourceId"].startswith(f"endpoint/{name}/")]


def policies(program: Program, name: str) -> list[dict[str, Any]]:
    client = program.emulator.client("application-autoscaling")
    found = client.describe_scaling_policies(ServiceNamespace="sagemaker")["ScalingPolicies"]
    return [match for match in found if match["ResourceId"].startswith(f"endpoint/{name}/")]


def objects(program: Program, prefix: str) -> list[str]:
    client = program.emulator.client("s3")
    found = client.list_objects_v2(Bucket=program.bucket, Prefix=prefix)
    return [content["Key"] for content in found.get("Contents", ())]


def text(program: Program, key: str) -> str:
    return program.emulator.client("s3").get_object(Bucket=program.bucket, Key=key)["Body"].read().decode()
