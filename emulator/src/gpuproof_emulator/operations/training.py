"""Operations on training jobs."""

from __future__ import annotations

from collections import Counter
from pathlib import PurePosixPath
from typing import Any

from gpuproof_emulator.execution.jobs.training_layout import CHECKPOINTS
from gpuproof_emulator.execution.jobs.warm_pools import describe_with_warm_pool
from gpuproof_emulator.job_kinds import TRAINING_JOB
from gpuproof_emulator.operations.call import OperationCall, add_resource, check_role, request_tags
from gpuproof_emulator.operations.create_checks import check_quota_and_capacity, reject_duplicates
from gpuproof_emulator.operations.jobs import MAX_RUNTIME_S, JobOperations
from gpuproof_emulator.operations.request_checks import (
    check_image,
    check_input_data,
    check_keys,
    check_metrics,
    check_network,
)
from gpuproof_emulator.protocol import AwsError, now
from gpuproof_emulator.store import TRAINING, Resource, resource_arn

_MISSING = "Requested resource not found."
_DUPLICATE = (
    "Training job names must be unique within an AWS account and region, and a training job with this name already"
    " exists ({arn})"
)


def create(call: OperationCall) -> dict[str, Any]:
    """`CreateTrainingJob`."""
    request = call.request
    _check(call)
    tags = request_tags(request)
    config = request["ResourceConfig"]
    check_role(call, request["RoleArn"])
    check_network(call, request.get("VpcConfig"))
    check_keys(call, request["OutputDataConfig"].get("KmsKeyId"), config.get("VolumeKmsKeyId"))
    check_input_data(call, request.get("InputDataConfig") or (), request["RoleArn"])
    market = "spot" if request.get("EnableManagedSpotTraining") else "on-demand"
    counts: Counter[str] = Counter()
    for group in config.get("InstanceGroups") or [config]:
        counts[group["InstanceType"]] += group["InstanceCount"]
    name = request["TrainingJobName"]
    job = Resource(TRAINING, call.region, name, _document(call), tags)
    with call.context.store.locked():
        for instance_type, count in counts.items():
            check_quota_and_capacity(call, "training", name, instance_type, count, market)
        arn = add_resource(call, job, _DUPLICATE)
    call.jobs.start(job)
    return {"TrainingJobArn": arn}


def update(call: OperationCall) -> dict[str, Any]:
    """`UpdateTrainingJob`: only the period for which a warm pool is kept."""
    unsupported = set(call.request) - {"TrainingJobName", "ResourceConfig"}
    if unsupported:
        raise AwsError(
            "ValidationException",
            f"This emulator does not support {', '.join(sorted(unsupported))} of UpdateTrainingJob.",
        )
    job = call.find(TRAINING, call.request["TrainingJobName"], _MISSING)
    keep = (call.request.get("ResourceConfig") or {}).get("KeepAlivePeriodInSeconds")
    pool = describe_with_warm_pool(job).get("WarmPoolStatus", {}).get("Status")
    if keep is not None and pool not in ("Available", "InUse"):
        raise AwsError(
            "ValidationException", f"The training job {job.name} has no warm pool that can be updated."
        )
    with call.context.store.modify(job):
        if keep is not None:
            job.extra["keep_alive"] = keep
    return {"TrainingJobArn": job.arn}


OPERATIONS = {
    "CreateTrainingJob": create,
    "UpdateTrainingJob": update,
    **JobOperations(TRAINING_JOB, _MISSING, describe_with_warm_pool).table(),
}


def _check(call: OperationCall) -> None:
    request = call.request
    algorithm = request.get("AlgorithmSpecification") or {}
    if not algorithm.get("TrainingImage") and not algorithm.get("AlgorithmName"):
        raise AwsError("ValidationException", "Either TrainingImage or AlgorithmName must be specified.")
    if not algorithm.get("TrainingImage"):
        raise AwsError(
            "ValidationException",
            f"Could not find algorithm {algorithm['AlgorithmName']}. Specify TrainingImage instead.",
        )
    check_image(algorithm["TrainingImage"])
    check_metrics(algorithm.get("MetricDefinitions") or ())
    config = request.get("ResourceConfig")
    if not config or not (config.get("InstanceGroups") or config.get("InstanceType")):
        raise AwsError("ValidationException", "ResourceConfig must name InstanceType and InstanceCount.")
    if not config.get("InstanceGroups") and not config.get("InstanceCount"):
        raise AwsError("ValidationException", "ResourceConfig must name InstanceCount.")
    names = [channel["ChannelName"] for channel in request.get("InputDataConfig", ())]
    reject_duplicates(names, "Channel names must be unique in InputDataConfig")
    for name in names:
        if name in (".", ".."):
            raise AwsError("ValidationException", f"ChannelName {name} is not a name.")
    checkpoints = (request.get("CheckpointConfig") or {}).get("LocalPath") or CHECKPOINTS
    if ".." in PurePosixPath(checkpoints).parts or not checkpoints.startswith("/"):
        raise AwsError("ValidationException", f"LocalPath {checkpoints} must be absolute, without '..'.")
    _check_times(request)


def _check_times(request: dict[str, Any]) -> None:
    times = request.get("StoppingCondition") or {}
    longest, wait = times.get("MaxRuntimeInSeconds", MAX_RUNTIME_S), times.get("MaxWaitTimeInSeconds")
    spot = request.get("EnableManagedSpotTraining")
    if spot and (wait is None or wait < longest):
        raise AwsError(
            "ValidationException",
            "Invalid MaxWaitTimeInSeconds. It must be present and be greater than or equal to MaxRuntimeInSeconds",
        )
    if wait is not None and not spot:
        raise AwsError(
            "ValidationException",
            "MaxWaitTimeInSeconds above 0 is supported only when EnableManagedSpotTraining is set to true",
        )
    if spot and request["ResourceConfig"].get("KeepAlivePeriodInSeconds"):
        raise AwsError(
            "ValidationException", "KeepAlivePeriodInSeconds is not supported with EnableManagedSpotTraining"
        )


def _document(call: OperationCall) -> dict[str, Any]:
    request, moment = call.request, now()
    document = {name: value for name, value in request.items() if name != "Tags"}
    output = request["OutputDataConfig"]
    return {
        "EnableNetworkIsolation": False,
        "EnableInterContainerTrafficEncryption": False,
        "EnableManagedSpotTraining": False,
        **document,
        "TrainingJobArn": resource_arn(TRAINING, call.region, request["TrainingJobName"]),
        "OutputDataConfig": {"KmsKeyId": "", "CompressionType": "GZIP", **output},
        "StoppingCondition": {
            "MaxRuntimeInSeconds": MAX_RUNTIME_S,
            **(request.get("StoppingCondition") or {}),
        },
        "TrainingJobStatus": "InProgress",
        "SecondaryStatus": "Starting",
        "SecondaryStatusTransitions": [
            {
                "Status": "Starting",
                "StartTime": moment,
                "StatusMessage": "Preparing the instances for training",
            }
        ],
        "CreationTime": moment,
        "LastModifiedTime": moment,
    }
