"""Processing jobs."""

from __future__ import annotations

from typing import Any

from gpuproof.emulator.arns import PROCESSING, arn
from gpuproof.emulator.operations.call import Call, created, new_tags, refuse_unknown_role
from gpuproof.emulator.operations.create_checks import refuse_by_fault, refuse_twice
from gpuproof.emulator.operations.list import Listing
from gpuproof.emulator.operations.stop_delete import delete_job, stop_job
from gpuproof.emulator.protocol import AwsError, now
from gpuproof.emulator.store import Resource

_MAX_RUNTIME = 86_400  # seconds, unless the request says otherwise
_ROOT = "/opt/ml/processing"
_DUPLICATE = "Job name must be unique within an AWS account and region, and a job with this name already exists ({arn})"
_LISTING = Listing(PROCESSING, "ProcessingJobSummaries", "ProcessingJobStatus")


def create(call: Call) -> dict[str, Any]:
    """`CreateProcessingJob`."""
    request = call.request
    _check(request)
    refuse_unknown_role(call, request["RoleArn"])
    cluster = request["ProcessingResources"]["ClusterConfig"]
    name = request["ProcessingJobName"]
    resource = Resource(PROCESSING, call.region, name, _document(call), new_tags(request))
    with call.emulator.store.at_once():
        refuse_by_fault(call, "processing", name, cluster["InstanceType"], cluster["InstanceCount"])
        made = created(call, resource, _DUPLICATE)
    call.emulator.supervisor.process(resource)
    return {"ProcessingJobArn": made}


def describe(call: Call) -> dict[str, Any]:
    """`DescribeProcessingJob`."""
    return call.settled(_job(call), "ProcessingJobStatus").document


def listed(call: Call) -> dict[str, Any]:
    """`ListProcessingJobs`."""
    return _LISTING.answer(call)


def stop(call: Call) -> dict[str, Any]:
    """`StopProcessingJob`."""
    return stop_job(call, _job(call), "Processing")


def delete(call: Call) -> dict[str, Any]:
    """`DeleteProcessingJob`."""
    return delete_job(call, _job(call), "Processing")


OPERATIONS = {
    "CreateProcessingJob": create,
    "DescribeProcessingJob": describe,
    "ListProcessingJobs": listed,
    "StopProcessingJob": stop,
    "DeleteProcessingJob": delete,
}


def _job(call: Call) -> Resource:
    name = call.request["ProcessingJobName"]
    return call.found(PROCESSING, name, f"Could not find requested job with name: {name}")


def _check(request: dict[str, Any]) -> None:
    inputs, outputs = (
        request.get("ProcessingInputs") or [],
        request.get("ProcessingOutputConfig", {}).get("Outputs", []),
    )
    refuse_twice([item["InputName"] for item in inputs], "Input names must be unique")
    refuse_twice([item["OutputName"] for item in outputs], "Output names must be unique")
    for item in inputs:
        if "S3Input" not in item:
            raise AwsError(
                "ValidationException",
                f"The input {item['InputName']} has no S3Input: DatasetDefinition is not run here.",
            )
    paths = [
        *(item["S3Input"].get("LocalPath", _ROOT) for item in inputs),
        *(item["S3Output"]["LocalPath"] for item in outputs if item.get("S3Output")),
    ]
    refuse_twice([path.rstrip("/") for path in paths], "LocalPaths must be unique")
    for path in paths:
        if path != _ROOT and not path.startswith(f"{_ROOT}/"):
            raise AwsError("ValidationException", f"LocalPath {path} must be below {_ROOT}.")


def _document(call: Call) -> dict[str, Any]:
    request, moment = call.request, now()
    return {
        **{name: value for name, value in request.items() if name != "Tags"},
        "StoppingCondition": {
            "MaxRuntimeInSeconds": _MAX_RUNTIME,
            **(request.get("StoppingCondition") or {}),
        },
        "ProcessingJobArn": arn(PROCESSING, call.region, request["ProcessingJobName"]),
        "ProcessingJobStatus": "InProgress",
        "CreationTime": moment,
        "LastModifiedTime": moment,
    }
