"""What a deployment sends: every request is validated against botocore's model; nothing is created."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import botocore.session
import pytest
from botocore.validate import ParamValidator

from gpuproof.backends.api_call import ApiCall
from gpuproof.backends.remote.bucket import BucketPlan
from gpuproof.backends.remote.deletion_schedule import schedule_name
from gpuproof.backends.sagemaker.endpoints.image import choose_endpoint_image
from gpuproof.backends.sagemaker.endpoints.plan import EndpointPlan, ModelSource
from gpuproof.backends.sagemaker.endpoints.requests import schedule_of
from gpuproof.backends.sagemaker.endpoints.scaling import scaling_calls
from gpuproof.backends.sagemaker.endpoints.verdict import read_verdict
from gpuproof.catalogue import Catalogue
from gpuproof.catalogue.model import Price
from gpuproof.errors import InvalidJob
from gpuproof.jobs.models.endpoint import EndpointJob
from gpuproof.units import Duration

LOCAL = ModelSource(Path("/tmp/model.tar.gz"), None, "a model")
REMOTE = ModelSource(None, "s3://data/model.tar.gz", "a model")
STORED = {
    "Arn": "arn:aws:scheduler:us-east-1:123456789012:schedule/default/gpuproof-digits",
    "Name": "gpuproof-digits",
    "GroupName": "default",
    "ScheduleExpression": "rate(5 minutes)",
    "StartDate": datetime(2027, 1, 15, 7, tzinfo=UTC),
    "EndDate": datetime(2027, 1, 16, 7, tzinfo=UTC),
    "ScheduleExpressionTimezone": "UTC",
    "Description": "",
    "State": "ENABLED",
    "Target": {
        "Arn": "arn:aws:scheduler:::aws-sdk:sagemaker:deleteEndpoint",
        "RoleArn": "arn:aws:iam::123456789012:role/old",
        "Input": '{"EndpointName": "digits"}',
    },
    "FlexibleTimeWindow": {"Mode": "OFF"},
    "ActionAfterCompletion": "DELETE",
}
"""The response of GetSchedule for the schedule of an endpoint that is updated."""
ROLE = "arn:aws:iam::123456789012:role/serve"


def endpoint(**keys: Any) -> EndpointJob:
    return EndpointJob(**{"name": "digits", "model": "m", "instance_type": "ml.g5.xlarge", **keys})


def plan(
    model: ModelSource = LOCAL,
    *,
    files: dict[str, Path] | None = None,
    replaces: str | None = None,
    stored_schedule: dict[str, Any] | None = None,
    price: Price | None = None,
    scaling: tuple[ApiCall, ...] = (),
    changes_type: bool = False,
    **keys: Any,
) -> EndpointPlan:
    job = endpoint(**{"ttl": Duration(7200), **keys})
    catalogue = Catalogue.load()
    instance = catalogue.instance(job.instance_type) if job.instance_type else None
    image = choose_endpoint_image(job, "pytorch", None, instance, catalogue, "us-east-1")
    return EndpointPlan(
        job=job,
        deployment="digits-20261123-120000-ab12",
        region="us-east-1",
        partition="aws",
        role=ROLE,
        bucket=BucketPlan("bucket", "us-east-1"),
        image=image,
        model=model,
        files=files or {},
        gpus=1,
        price=price,
        require_gpu=True,
        schedule_role="arn:aws:iam::123456789012:role/gpuproof-scheduler",
        planned_at=1_800_000_000 - 7200,
        replaces=replaces,
        stored_schedule=stored_schedule,
        scaling=scaling,
        changes_type=changes_type,
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
        plan(max_instances=4, target_concurrency=8.0, data_capture="s3://records/x,20"),
        plan(async_output="s3://results/x", async_error="arn:aws:sns:us-east-1:123456789012:e"),
        plan(instance_type=None, serverless="memory=4096,concurrency=5"),
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


def test_the_schedule_deletes_the_endpoint_again_and_again_for_a_day() -> None:
    found = request(plan(), "create_schedule")
    assert found["ScheduleExpression"] == "rate(5 minutes)"
    assert (found["StartDate"], found["EndDate"]) == ("2027-01-15T08:00:00Z", "2027-01-16T08:00:00Z")
    assert found["ActionAfterCompletion"] == "DELETE"
    assert found["Target"]["Arn"] == "arn:aws:scheduler:::aws-sdk:sagemaker:deleteEndpoint"
    assert found["Target"]["Input"] == '{"EndpointName": "digits"}'


def test_a_late_retry_cannot_delete_a_new_endpoint_of_the_same_name() -> None:
    assert request(plan(), "create_schedule")["Target"]["RetryPolicy"]["MaximumRetryAttempts"] == 0


def test_the_schedule_is_created_before_the_endpoint_costs_money() -> None:
    operations = [call.operation for call in plan().calls]
    assert operations.index("create_schedule") < operations.index("create_endpoint")


def test_an_update_moves_the_schedule_before_it_and_the_undo_restores_every_member() -> None:
    found = plan(replaces="digits-old", stored_schedule=STORED)
    operations = [call.operation for call in found.calls]
    assert operations.index("update_schedule") < operations.index("update_endpoint")
    assert "create_schedule" not in operations
    undo = schedule_of("digits").restore(STORED, STORED["StartDate"].timestamp() - 1)
    assert undo.request == {key: STORED[key] for key in STORED if key not in ("Arn", "Description")}


def test_a_schedule_whose_old_time_has_passed_returns_to_now() -> None:
    """EventBridge Scheduler refuses times in the past."""
    now = STORED["StartDate"].timestamp() + 600
    undo = schedule_of("digits").restore(STORED, now)
    assert undo.request["StartDate"] == "2027-01-15T07:10:00Z"
    assert undo.request["Target"]["RoleArn"] == STORED["Target"]["RoleArn"]


def test_a_new_endpoint_without_ttl_deletes_the_schedule_of_an_earlier_one() -> None:
    operations = [call.operation for call in plan(stored_schedule=STORED, ttl=None).calls]
    assert operations.index("delete_schedule") < operations.index("create_endpoint")


def test_an_update_without_ttl_leaves_the_schedule_alone() -> None:
    found = plan(replaces="digits-old", stored_schedule=STORED, ttl=None)
    assert not any(call.service == "scheduler" for call in found.calls)


def test_names_of_schedules_do_not_collide() -> None:
    """Names of endpoints have up to 63 characters, those of schedules up to 64."""
    names = [schedule_name("a" * 59 + end) for end in ("-one", "-two")]
    assert len({*names}) == 2
    assert all(len(name) <= 64 for name in names)
    assert schedule_name("digits") == "gpuproof-digits"


def test_another_schedule_of_that_name_is_not_the_endpoints() -> None:
    schedule = schedule_of("digits")
    assert schedule.is_stored_as(STORED)
    other = {**STORED["Target"], "Input": '{"EndpointName": "letters"}'}
    assert not schedule.is_stored_as({**STORED, "Target": other})
    stopping = {**STORED["Target"], "Arn": "arn:aws:scheduler:::aws-sdk:sagemaker:deleteModel"}
    assert not schedule.is_stored_as({**STORED, "Target": stopping})


SCALED = scaling_calls(endpoint(max_instances=4))


def test_an_update_of_a_scaled_endpoint_keeps_its_number_of_instances() -> None:
    found = request(plan(replaces="digits-old", scaling=SCALED), "update_endpoint")
    assert found["RetainAllVariantProperties"] is True
    excluded = {item["VariantPropertyType"] for item in found["ExcludeRetainedVariantProperties"]}
    assert "DesiredInstanceCount" not in excluded
    assert "RetainAllVariantProperties" not in request(plan(replaces="digits-old"), "update_endpoint")


def test_an_update_to_another_type_ends_the_scaling_before_it_and_starts_it_again() -> None:
    found = plan(replaces="digits-old", scaling=SCALED, changes_type=True)
    operations = [call.operation for call in found.calls]
    expected = [
        "deregister_scalable_target",
        "update_endpoint",
        "register_scalable_target",
        "put_scaling_policy",
    ]
    assert [operation for operation in operations if operation in expected] == expected
    assert "RetainAllVariantProperties" not in request(found, "update_endpoint")


def test_an_asynchronous_endpoint_is_scaled_by_its_queue() -> None:
    found = request(plan(async_output="s3://results/x", max_instances=4), "put_scaling_policy")
    metric = found["TargetTrackingScalingPolicyConfiguration"]["CustomizedMetricSpecification"]
    assert metric["MetricName"] == "ApproximateBacklogSizePerInstance"
    assert metric["Dimensions"] == [{"Name": "EndpointName", "Value": "digits"}]


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
    catalogue = Catalogue.load()
    return choose_endpoint_image(
        endpoint(**keys), framework, version, catalogue.instance("ml.g5.xlarge"), catalogue, "us-east-1"
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
    catalogue.tables.__dict__["host_amis"] = tuple(
        ami for ami in catalogue.tables.host_amis if ami.driver < 500
    ) + tuple(
        ami._replace(driver=470) for ami in catalogue.tables.host_amis if ami.version and ami.driver >= 500
    )
    with pytest.raises(InvalidJob, match="needs the NVIDIA driver"):
        choose_endpoint_image(
            endpoint(image=CU130), "pytorch", None, catalogue.instance("ml.g5.xlarge"), catalogue, "us-east-1"
        )


CU130 = "763104351884.dkr.ecr.us-east-1.amazonaws.com/pytorch-inference:2.9.1-gpu-py312-cu130-ubuntu22.04-sagemaker"


def with_cuda_13(instance_type: str, service: Any) -> list[Any]:
    """The choices for an image that the user names, and for the catalogue's own; both have CUDA 13."""
    catalogue = Catalogue.load()
    catalogue.tables.__dict__["images"] = tuple(row._replace(cuda="13.0") for row in catalogue.tables.images)
    instance = catalogue.instance(instance_type)
    assert instance is not None
    return [
        choose_endpoint_image(options, "pytorch", None, instance, catalogue, "us-east-1", service)
        for options in (endpoint(image=CU130), endpoint())
    ]


@pytest.mark.parametrize("service", ["transform", "endpoint"])
def test_the_host_image_does_not_depend_on_how_the_image_is_given(service: Any) -> None:
    named, found = with_cuda_13("ml.g5.xlarge", service)
    assert found.row is not None
    assert named.ami == found.ami
    assert [note for note in found.notes if "driver" in note] == list(named.notes)
    # Batch transform has no hosts with driver 580: AWS's images start on 535 with CUDA's compatibility libraries.
    if service == "transform":
        assert named.ami == "al2-ami-sagemaker-batch-gpu-535"
        assert "compatibility libraries" in " ".join(named.notes)
    else:
        assert (named.ami, named.notes) == ("al2023-ami-sagemaker-inference-gpu-4-1", ())


def test_an_image_for_a_gpu_that_no_host_image_knows_is_rejected() -> None:
    with pytest.raises(InvalidJob, match="needs the NVIDIA driver"):
        with_cuda_13("ml.p6-b200.48xlarge", "transform")


def test_an_unknown_framework_is_asked_for() -> None:
    catalogue = Catalogue.load()
    with pytest.raises(InvalidJob, match="not known with which framework"):
        choose_endpoint_image(
            endpoint(), None, None, catalogue.instance("ml.g5.xlarge"), catalogue, "us-east-1"
        )


def test_an_answer_of_another_server_is_no_verdict() -> None:
    assert read_verdict(b"[0.1, 0.9]").verdict == "unknown"
    assert read_verdict(b"<html>").verdict == "unknown"
    assert read_verdict(b'{"verdict": "used", "reason": "x"}').verdict == "used"


def test_the_highest_cost_counts_the_instances_that_it_may_scale_to_until_the_ttl_ends() -> None:
    price = Catalogue.load().price("ml.g5.xlarge", "us-east-1", "endpoint")
    assert price is not None
    assert plan(price=price, ttl="90m").max_usd == pytest.approx(1.5 * price.usd_per_hour)
    scaled = plan(price=price, ttl="1h", instance_count=2, max_instances=4)
    assert scaled.max_usd == pytest.approx(4 * price.usd_per_hour)
    assert plan(price=price, ttl=None).max_usd is None  # nothing deletes it
    assert plan(ttl="1h").max_usd is None
