"""Operations on processing jobs."""

from __future__ import annotations

from typing import Any

from gpuproof_emulator.execution.container_paths import PROCESSING_ROOT, is_below
from gpuproof_emulator.job_kinds import PROCESSING_JOB
from gpuproof_emulator.operations.call import OperationCall, add_resource, check_role, request_tags
from gpuproof_emulator.operations.create_checks import check_quota_and_capacity, reject_duplicates
from gpuproof_emulator.operations.jobs import MAX_RUNTIME_S, JobOperations
from gpuproof_emulator.operations.request_checks import check_image, check_keys, check_network
from gpuproof_emulator.protocol import AwsError, now
from gpuproof_emulator.store import PROCESSING, Resource, resource_arn

_DUPLICATE = "Job name must be unique within an AWS account and region, and a job with this name already exists ({arn})"
_MISSING = "Could not find requested job with name: {name}"


def create(call: OperationCall) -> dict[str, Any]:
    """`CreateProcessingJob`."""
    request = call.request
    _check(request)
    tags = request_tags(request)
    cluster = request["ProcessingResources"]["ClusterConfig"]
    check_image(request["AppSpecification"]["ImageUri"])
    check_role(call, request["RoleArn"])
    check_network(call, (request.get("NetworkConfig") or {}).get("VpcConfig"))
    outputs = request.get("ProcessingOutputConfig") or {}
    check_keys(call, outputs.get("KmsKeyId"), cluster.get("VolumeKmsKeyId"))
    name = request["ProcessingJobName"]
    job = Resource(PROCESSING, call.region, name, _document(call), tags)
    with call.context.store.locked():
        check_quota_and_capacity(call, "processing", name, cluster["InstanceType"], cluster["InstanceCount"])
        arn = add_resource(call, job, _DUPLICATE)
    call.jobs.start(job)
    return {"ProcessingJobArn": arn}


OPERATIONS = {"CreateProcessingJob": create, **JobOperations(PROCESSING_JOB, _MISSING).table()}


def _check(request: dict[str, Any]) -> None:
    inputs, outputs = (
        request.get("ProcessingInputs") or [],
        request.get("ProcessingOutputConfig", {}).get("Outputs", []),
    )
    reject_duplicates([item["InputName"] for item in inputs], "Input names must be unique")
    reject_duplicates([item["OutputName"] for item in outputs], "Output names must be unique")
    for item in inputs:
        if "S3Input" not in item:
            raise AwsError(
                "ValidationException",
                f"The input {item['InputName']} has no S3Input; this emulator does not support DatasetDefinition.",
            )
    paths = [
        *(item["S3Input"].get("LocalPath", PROCESSING_ROOT) for item in inputs),
        *(item["S3Output"]["LocalPath"] for item in outputs if item.get("S3Output")),
    ]
    reject_duplicates([path.rstrip("/") for path in paths], "LocalPaths must be unique")
    for path in paths:
        if not is_below(path, PROCESSING_ROOT):
            raise AwsError(
                "ValidationException", f"LocalPath {path} must be below {PROCESSING_ROOT}, without '..'."
            )


def _document(call: OperationCall) -> dict[str, Any]:
    request, moment = call.request, now()
    return {
        **{name: value for name, value in request.items() if name != "Tags"},
        "StoppingCondition": {
            "MaxRuntimeInSeconds": MAX_RUNTIME_S,
            **(request.get("StoppingCondition") or {}),
        },
        "ProcessingJobArn": resource_arn(PROCESSING, call.region, request["ProcessingJobName"]),
        "ProcessingJobStatus": "InProgress",
        "CreationTime": moment,
        "LastModifiedTime": moment,
    }
