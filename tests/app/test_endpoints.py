"""`gpuproof.deploy`, `predict`, `transform` and `delete` in Python, against the emulator over HTTP."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import gpuproof
from gpuproof.errors import GPUproofError, UsageError
from support.aws_emulator import RunningEmulator, running_emulator
from support.deploy_program import Program
from support.endpoint_sandbox import ECHO, IMAGE

pytestmark = pytest.mark.slow

PAGE = Path(__file__).parents[2] / "docs" / "endpoints.md"
CPU = "ml.m5.xlarge"


@pytest.fixture(scope="module")
def emulator(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningEmulator]:
    with running_emulator(tmp_path_factory.mktemp("aws"), stop_grace=1.0) as running:
        yield running


@pytest.fixture
def program(emulator: RunningEmulator, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Program:
    program = Program(emulator, tmp_path)
    for name, value in program.environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(tmp_path)
    return program


def test_the_example_of_the_page_runs(program: Program, capsys: pytest.CaptureFixture[str]) -> None:
    program.write("import torch\n" + ECHO)
    blocks = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    (block,) = [block for block in blocks if "gpuproof.deploy(" in block]
    exec(block.replace("ml.g5.xlarge", CPU), {})
    plan, predicted, deleted = re.split(r"\n(?=unknown|no-gpu|deleted)", capsys.readouterr().out, maxsplit=2)
    assert plan.startswith("endpoint   digits-test in us-east-1: 1 x ml.m5.xlarge, $")
    assert predicted == "no-gpu [[5.1, 3.5, 1.4, 0.2]]"
    assert deleted.startswith("deleted    endpoint digits-test\n")
    assert program.left("digits-test") == []


def test_an_endpoint_takes_values_arrays_bytes_and_files(program: Program) -> None:
    job = gpuproof.EndpointJob(model=program.model, name="python", instance_type=CPU, image=IMAGE)
    endpoint = gpuproof.deploy(job)
    assert repr(endpoint) == "<DeployedEndpoint: endpoint python>"
    assert "gpu        no-gpu" in str(endpoint)
    assert endpoint.to_json()["delete"].startswith("gpuproof delete python")
    path = program.model / "rows.json"
    path.write_text("[7]")
    for data in ([7], "[7]", b"[7]", path, str(path)):
        response = gpuproof.predict("python", data, content_type="application/json")
        assert (response.json(), str(response), response.variant) == ([7], "[7]", "AllTraffic")
    with pytest.raises(GPUproofError, match="answered"):  # the handler reads JSON only
        gpuproof.predict("python", np.zeros(2))
    for data, arguments, message in (
        (object(), {}, "object cannot be sent as JSON"),
        ("no-such-file", {}, "neither a file nor JSON"),
        ([7], {"timeout": "soon"}, "timeout: 'soon'"),
        ([7], {"timeout": 0}, "timeout must be at least"),
        ([7], {"accept": "a\nb"}, "accept must be one line"),
        ([7], {"target_variant": "v2"}, "It has AllTraffic|no variant v2"),
    ):
        with pytest.raises(UsageError, match=message):
            gpuproof.predict("python", data, **arguments)
    planned = gpuproof.delete("python", dry_run=True)
    assert (planned.is_dry_run, planned.deleted[0]) == (True, "endpoint python")
    deleted = gpuproof.delete("python")
    assert deleted.deleted == planned.deleted
    assert program.left("python") == []
    with pytest.raises(UsageError, match="There is no endpoint python"):
        gpuproof.delete("python")


def test_a_foreign_endpoint_is_deleted_only_with_yes(program: Program) -> None:
    client = program.emulator.client("sagemaker")
    client.create_model(
        ModelName="foreign", ExecutionRoleArn=program.emulator.role, PrimaryContainer={"Image": IMAGE}
    )
    variant = {"VariantName": "a", "ModelName": "foreign", "InstanceType": CPU, "InitialInstanceCount": 1}
    client.create_endpoint_config(EndpointConfigName="foreign", ProductionVariants=[variant])
    client.create_endpoint(EndpointName="foreign", EndpointConfigName="foreign")
    with pytest.raises(UsageError, match="GPUproof did not create it") as refused:
        gpuproof.delete("foreign")
    assert refused.value.remedy == "gpuproof.delete('foreign', yes=True)"
    assert gpuproof.delete("foreign", yes=True).deleted == ("endpoint foreign",)


def test_a_deployment_that_fails_leaves_nothing(program: Program) -> None:
    job = gpuproof.EndpointJob(model=program.model, name="cpu", instance_type="ml.g5.xlarge", image=IMAGE)
    with pytest.raises(GPUproofError, match="is not on the GPU"):
        gpuproof.deploy(job)
    assert program.left("cpu") == []


def test_a_batch_transform_job(program: Program) -> None:
    rows = program.model.parent / "rows.jsonl"
    rows.write_text("[1]\n[2]\n")
    job = gpuproof.TransformJob(
        model=program.model,
        image=IMAGE,
        input=rows,
        output=f"s3://{program.bucket}/out",
        instance_type=CPU,
        split="line",
        records="one",
        content_type="application/json",
    )
    plan = gpuproof.transform(job, dry_run=True)
    assert [call.operation for call in plan.calls][-2:] == ["create_model", "create_transform_job"]
    done = gpuproof.transform(job)
    assert (done.status, done.stays) == ("Completed", ())
    assert done.cost is not None
    assert f"results    s3://{program.bucket}/out" in str(done)
    body = program.emulator.client("s3").get_object(Bucket=program.bucket, Key="out/rows.jsonl.out")["Body"]
    assert body.read().split() == [b"[1]", b"[2]"]
    assert program.left(done.name) == []
