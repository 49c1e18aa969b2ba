"""Operations on batch transform jobs."""

from __future__ import annotations

from typing import Any

from gpuproof_emulator.job_kinds import TRANSFORM_JOB
from gpuproof_emulator.operations.call import OperationCall, add_resource, request_tags
from gpuproof_emulator.operations.create_checks import check_quota_and_capacity
from gpuproof_emulator.operations.endpoint_checks import reject_model_data_source
from gpuproof_emulator.operations.jobs import JobOperations
from gpuproof_emulator.operations.request_checks import check_keys
from gpuproof_emulator.operations.supported_members import (
    TRANSFORM_MEMBERS,
    reject_unsupported,
    reject_value,
    unsupported,
)
from gpuproof_emulator.protocol import now
from gpuproof_emulator.store import MODEL, TRANSFORM, Resource, resource_arn

_DUPLICATE = "Job name must be unique within an AWS account and region, and a job with this name already exists ({arn})"
_MISSING = "Could not find requested job with name: {name}"


def create(call: OperationCall) -> dict[str, Any]:
    """`CreateTransformJob`."""
    request = call.request
    reject_unsupported(request, TRANSFORM_MEMBERS)
    _check_values(request)
    name, arn = request["TransformJobName"], resource_arn(MODEL, call.region, request["ModelName"])
    model = call.find(MODEL, request["ModelName"], f'Could not find model "{arn}".')
    containers = model.document.get("Containers") or [model.document["PrimaryContainer"]]
    if containers[0].get("Mode") == "MultiModel":
        raise unsupported("multi-model containers in batch transform")
    reject_model_data_source(model, "Batch transform does")
    resources = request["TransformResources"]
    check_keys(call, resources.get("VolumeKmsKeyId"), request["TransformOutput"].get("KmsKeyId"))
    moment = now()
    document = {
        **{member: value for member, value in request.items() if member != "Tags"},
        "TransformJobArn": resource_arn(TRANSFORM, call.region, name),
        "TransformJobStatus": "InProgress",
        "CreationTime": moment,
    }
    job = Resource(TRANSFORM, call.region, name, document, request_tags(request))
    with call.context.store.locked():
        kind, count = resources["InstanceType"], resources["InstanceCount"]
        check_quota_and_capacity(call, "transform", name, kind, count)
        created = add_resource(call, job, _DUPLICATE)
    call.jobs.start(job)
    return {"TransformJobArn": created}


# SageMaker has no DeleteTransformJob.
OPERATIONS = {
    "CreateTransformJob": create,
    **{
        name: operation
        for name, operation in JobOperations(TRANSFORM_JOB, _MISSING).table().items()
        if not name.startswith("Delete")
    },
}


def _check_values(request: dict[str, Any]) -> None:
    source = request["TransformInput"]["DataSource"]["S3DataSource"]
    reject_value(
        "TransformInput.DataSource.S3DataSource.S3DataType",
        source["S3DataType"],
        ("S3Prefix", "ManifestFile"),
    )
    reject_value("TransformInput.SplitType", request["TransformInput"].get("SplitType"), ("None", "Line"))
    processing = request.get("DataProcessing") or {}
    reject_value("DataProcessing.JoinSource", processing.get("JoinSource"), ("None",))
    for member in ("InputFilter", "OutputFilter"):
        reject_value(f"DataProcessing.{member}", processing.get(member), ("$",))
