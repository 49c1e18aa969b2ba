"""What a deployment sends: every request is validated against botocore's model; nothing is created."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import botocore.session
import pytest
from botocore.validate import ParamValidator

from gpuproof.backends.api_call import ApiCall
from gpuproof.backends.remote.bucket import BucketPlan
from gpuproof.backends.sagemaker.endpoints.image import choose_endpoint_image
from gpuproof.backends.sagemaker.endpoints.options import (
    AsyncInference,
    DataCapture,
    EndpointOptions,
    Scaling,
    Serverless,
    check_options,
)
from gpuproof.backends.sagemaker.endpoints.plan import EndpointPlan, ModelSource
from gpuproof.backends.sagemaker.endpoints.verdict import read_verdict
from gpuproof.catalogue import Catalogue
from gpuproof.errors import InvalidJob, UsageError

LOCAL = ModelSource(Path("/tmp/model.tar.gz"), None, "a model")
REMOTE = ModelSource(None, "s3://data/model.tar.gz", "a model")
STORED = {
    "Arn": "arn:aws:scheduler:us-east-1:123456789012:schedule/default/gpuproof-digits",
    "Name": "gpuproof-digits",
    "GroupName": "default",
    "ScheduleExpression": "at(2026-11-23T14:00:00)",
    "ScheduleExpressionTimezone": "UTC",
    "Description": "",
    "State": "ENABLED",
    "Target": {
        "Arn": "arn:aws:scheduler:::aws-sdk:sagemaker:deleteEndpoint",
        "RoleArn": "arn:aws:iam::123456789012:role/old",
    },
    "FlexibleTimeWindow": {"Mode": "OFF"},
    "ActionAfterCompletion": "DELETE",
}
"""The response of GetSchedule for the schedule of an endpoint that is updated."""
ROLE = "arn:aws:iam::123456789012:role/serve"


def plan(
    model: ModelSource = LOCAL,
    *,
    files: dict[str, Path] | None = None,
    replaces: str | None = None,
    stored_schedule: dict[str, Any] | None = None,
    **keys: Any,
) -> EndpointPlan:
    options = EndpointOptions(**{"name": "digits", "instance_type": "ml.g5.xlarge", **keys})
    catalogue = Catalogue.load()
    instance = catalogue.instance(options.instance_type) if options.instance_type else None
    image = choose_endpoint_image(options, "pytorch", None, instance, catalogue, "us-east-1")
    return EndpointPlan(
        options=options,
        deployment="digits-20261123-120000-ab12",
        region="us-east-1",
        partition="aws",
        role=ROLE,
        bucket=BucketPlan("bucket", "us-east-1"),
        image=image,
        model=model,
        files=files or {},
        gpus=1,
        price=None,
        require_gpu=True,
        schedule_role="arn:aws:iam::123456789012:role/gpuproof-scheduler",
        delete_at=1_800_000_000,
        replaces=replaces,
        stored_schedule=stored_schedule,
    )


def request(found: EndpointPlan, operation: str) -> dict[str, Any]:
    return dict(next(call for call in found.calls if call.operation == operation).request)


def validate(call: ApiCall) -> None:
    model = botocore.session.get_session().get_service_model(call.service)
    names = {botocore.xform_name(name): name for name in model.operation_names}
    shape = model.operation_model(names[call.operation]).input_shape
    report = ParamValidator().validate(dict(call.request), shape)
    assert not report.has_errors(), report.generate_report()


@pytest.mark.parametrize(
    "found",
    [
        plan(),
        plan(REMOTE, files={"gpuproof-agent.pyz": Path("/tmp/agent")}),
        plan(scaling=Scaling(1, 4, 8.0), capture=DataCapture("s3://records/x", 20)),
        plan(
            asynchronous=AsyncInference("s3://results/x", error_topic="arn:aws:sns:us-east-1:123456789012:e")
        ),
        plan(instance_type=None, serverless=Serverless(4096, 5)),
        plan(replaces="digits-old", stored_schedule=STORED),
    ],
    ids=["local", "s3", "scaling", "async", "serverless", "update"],
)
def test_every_request_fits_the_model_of_the_api_and_so_does_its_undo(found: EndpointPlan) -> None:
    for call in found.calls:
        if call.service == "s3":
            continue
        validate(call)
        if call.undo is not None:
            validate(call.undo)


def test_the_schedule_deletes_the_endpoint_once_and_then_itself() -> None:
    found = request(plan(), "create_schedule")
    assert found["ScheduleExpression"] == "at(2027-01-15T08:00:00)"
    assert found["ActionAfterCompletion"] == "DELETE"
    assert found["Target"]["Arn"] == "arn:aws:scheduler:::aws-sdk:sagemaker:deleteEndpoint"
    assert found["Target"]["Input"] == '{"EndpointName": "digits"}'


def test_the_schedule_is_created_before_the_endpoint_costs_money() -> None:
    operations = [call.operation for call in plan().calls]
    assert operations.index("create_schedule") < operations.index("create_endpoint")


def test_an_update_moves_the_schedule_after_it_and_the_undo_restores_every_member() -> None:
    found = plan(replaces="digits-old", stored_schedule=STORED)
    operations = [call.operation for call in found.calls]
    assert operations.index("update_endpoint") < operations.index("update_schedule")
    assert "create_schedule" not in operations
    assert found.schedule is not None
    assert found.schedule.undo is not None
    assert found.schedule.undo.request == {
        key: STORED[key] for key in STORED if key not in ("Arn", "Description")
    }


def test_the_server_is_found_in_the_archive_or_in_the_additional_source() -> None:
    local = request(plan(environment={"PYTHONPATH": "/own"}), "create_model")["PrimaryContainer"]
    assert local["Environment"]["PYTHONPATH"] == "/opt/ml/model/code/.gpuproof:/own"
    assert local["ModelDataUrl"].endswith("/model.tar.gz")
    remote = request(plan(REMOTE, files={"a": Path("/tmp/a")}), "create_model")["PrimaryContainer"]
    folder = "/opt/ml/additional-model-data-sources/gpuproof"
    assert remote["Environment"]["BASH_ENV"] == f"{folder}/bash_env.sh"
    assert remote["ModelDataSource"]["S3DataSource"]["S3Uri"] == REMOTE.address
    (source,) = remote["AdditionalModelDataSources"]
    assert (
        source["S3DataSource"]["S3Uri"]
        == "s3://bucket/gpuproof/endpoints/digits-20261123-120000-ab12/server/"
    )


def test_values_of_variables_are_hidden_in_a_dry_run() -> None:
    assert "hunter2" not in str(plan(environment={"PASSWORD": "hunter2"}).to_json())


def test_the_images_own_server_gets_no_variables_of_ours() -> None:
    container = request(plan(server="image"), "create_model")["PrimaryContainer"]
    assert "Environment" not in container


def image(framework: str, version: str | None, **keys: Any) -> Any:
    options = EndpointOptions("digits", "ml.g5.xlarge", **keys)
    catalogue = Catalogue.load()
    return choose_endpoint_image(
        options, framework, version, catalogue.instance("ml.g5.xlarge"), catalogue, "us-east-1"
    )


def test_a_cuda_12_4_image_gets_a_host_image_with_a_driver_for_it() -> None:
    found = image("pytorch", "2.6")
    assert found.row.cuda.startswith("12.")
    assert found.ami == "al2-ami-sagemaker-inference-gpu-2"


def test_tensorflow_is_served_from_the_training_image_which_has_tensorflow_for_python() -> None:
    assert "tensorflow-training" in image("tensorflow", None).uri
    assert "tensorflow-inference" in image("tensorflow", None, server="image").uri


def test_an_image_that_needs_a_newer_driver_than_any_host_image_is_rejected() -> None:
    catalogue = Catalogue.load()
    options = EndpointOptions("digits", "ml.g5.xlarge")
    newest = max(int(ami.driver) for ami in catalogue.tables.endpoint_amis)
    rows = [row for row in catalogue.tables.images if row.cuda]
    needed = {
        row.cuda: floor.minimum for row in rows if (floor := catalogue.driver_floor(row.cuda)) is not None
    }
    too_new = {cuda for cuda, minimum in needed.items() if int(minimum.partition(".")[0]) > newest}
    if not too_new:
        # All known images run: take the host images away.
        catalogue.tables.__dict__["endpoint_amis"] = tuple(
            ami for ami in catalogue.tables.endpoint_amis if int(ami.driver) < 500
        ) or (catalogue.tables.endpoint_amis[0]._replace(driver="470", cuda="11.4"),)
    with pytest.raises(InvalidJob, match="needs the NVIDIA driver"):
        choose_endpoint_image(
            options, "pytorch", "2.6", catalogue.instance("ml.g5.xlarge"), catalogue, "us-east-1"
        )


def test_an_unknown_framework_is_asked_for() -> None:
    catalogue = Catalogue.load()
    options = EndpointOptions("digits", "ml.g5.xlarge")
    with pytest.raises(InvalidJob, match="not known with which framework"):
        choose_endpoint_image(options, None, None, catalogue.instance("ml.g5.xlarge"), catalogue, "us-east-1")


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({}, "needs an instance type"),
        ({"instance_type": "ml.g5.xlarge", "serverless": Serverless(1024, 1)}, "no an instance type"),
        ({"serverless": Serverless(1024, 1), "require_gpu": True}, "no GPUs"),
        ({"instance_type": "ml.g5.xlarge", "scaling": Scaling(2, 4, 1.0)}, "ascending order"),
        ({"instance_type": "ml.g5.xlarge", "asynchronous": AsyncInference("bucket")}, "not an S3 address"),
    ],
)
def test_options_that_contradict_each_other_are_rejected(keys: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        check_options(EndpointOptions("digits", **keys))


@pytest.mark.parametrize("text", ["memory=4000", "concurrency=0", "gpu=1", "memory"])
def test_serverless_sizes_that_sagemaker_does_not_have_are_rejected(text: str) -> None:
    with pytest.raises(UsageError):
        Serverless.parse(text)


@pytest.mark.parametrize("text", ["bucket/x", "s3://b/x,0", "s3://b/x,101", "s3://b/x,half"])
def test_data_capture_takes_an_address_and_a_percentage(text: str) -> None:
    assert DataCapture.parse("s3://b/x,20%") == DataCapture("s3://b/x", 20)
    with pytest.raises(UsageError):
        DataCapture.parse(text)


def test_an_answer_of_another_server_is_no_verdict() -> None:
    assert read_verdict(b"[0.1, 0.9]").verdict == "unknown"
    assert read_verdict(b"<html>").verdict == "unknown"
    assert read_verdict(b'{"verdict": "used", "reason": "x"}').verdict == "used"
