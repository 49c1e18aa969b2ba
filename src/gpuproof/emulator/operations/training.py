"""Training jobs."""

from __future__ import annotations

from collections import Counter
from typing import Any

from gpuproof.emulator.arns import TRAINING, arn_of
from gpuproof.emulator.execution.jobs.warm_pools import with_pool
from gpuproof.emulator.operations.call import Call, created, new_tags, refuse_unknown_role
from gpuproof.emulator.operations.create_checks import refuse_by_fault, refuse_twice
from gpuproof.emulator.operations.list import Listing
from gpuproof.emulator.operations.stop_delete import delete_job, stop_job
from gpuproof.emulator.protocol import AwsError, now
from gpuproof.emulator.store import Resource

_MAX_RUNTIME = 86_400  # seconds, unless the request says otherwise
_MISSING = "Requested resource not found."
_DUPLICATE = (
    "Training job names must be unique within an AWS account and region, and a training job with this name already"
    " exists ({arn})"
)
_LISTING = Listing(TRAINING, "TrainingJobSummaries", "TrainingJobStatus", visible=with_pool)


def create(call: Call) -> dict[str, Any]:
    """`CreateTrainingJob`."""
    request = call.request
    _check(call)
    refuse_unknown_role(call, request["RoleArn"])
    config = request["ResourceConfig"]
    market = "spot" if request.get("EnableManagedSpotTraining") else "on-demand"
    asked: Counter[str] = Counter()
    for group in config.get("InstanceGroups") or [config]:
        asked[group["InstanceType"]] += group["InstanceCount"]
    name = request["TrainingJobName"]
    resource = Resource(TRAINING, call.region, name, _document(call), new_tags(request))
    with call.emulator.store.at_once():
        for kind, count in asked.items():
            refuse_by_fault(call, "training", name, kind, count, market)
        arn = created(call, resource, _DUPLICATE)
    call.emulator.supervisor.train(resource)
    return {"TrainingJobArn": arn}


def describe(call: Call) -> dict[str, Any]:
    """`DescribeTrainingJob`."""
    job = call.settled(_job(call), "TrainingJobStatus")
    return with_pool(job)


def listed(call: Call) -> dict[str, Any]:
    """`ListTrainingJobs`."""
    return _LISTING.answer(call)


def stop(call: Call) -> dict[str, Any]:
    """`StopTrainingJob`."""
    return stop_job(call, _job(call), "Training")


def delete(call: Call) -> dict[str, Any]:
    """`DeleteTrainingJob`."""
    return delete_job(call, _job(call), "Training")


OPERATIONS = {
    "CreateTrainingJob": create,
    "DescribeTrainingJob": describe,
    "ListTrainingJobs": listed,
    "StopTrainingJob": stop,
    "DeleteTrainingJob": delete,
}


def _job(call: Call) -> Resource:
    return call.found(TRAINING, call.request["TrainingJobName"], _MISSING)


def _check(call: Call) -> None:
    request = call.request
    algorithm = request.get("AlgorithmSpecification") or {}
    if not algorithm.get("TrainingImage") and not algorithm.get("AlgorithmName"):
        raise AwsError("ValidationException", "Either TrainingImage or AlgorithmName must be specified.")
    if not algorithm.get("TrainingImage"):
        raise AwsError(
            "ValidationException",
            f"Could not find algorithm {algorithm['AlgorithmName']}: give TrainingImage.",
        )
    config = request.get("ResourceConfig")
    if not config or not (config.get("InstanceGroups") or config.get("InstanceType")):
        raise AwsError("ValidationException", "ResourceConfig must name InstanceType and InstanceCount.")
    if not config.get("InstanceGroups") and not config.get("InstanceCount"):
        raise AwsError("ValidationException", "ResourceConfig must name InstanceCount.")
    names = [channel["ChannelName"] for channel in request.get("InputDataConfig", ())]
    refuse_twice(names, "Channel names must be unique in InputDataConfig")
    _check_times(request)


def _check_times(request: dict[str, Any]) -> None:
    times = request.get("StoppingCondition") or {}
    longest, wait = times.get("MaxRuntimeInSeconds", _MAX_RUNTIME), times.get("MaxWaitTimeInSeconds")
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


def _document(call: Call) -> dict[str, Any]:
    request, moment = call.request, now()
    document = {name: value for name, value in request.items() if name != "Tags"}
    output = request["OutputDataConfig"]
    return {
        "EnableNetworkIsolation": False,
        "EnableInterContainerTrafficEncryption": False,
        "EnableManagedSpotTraining": False,
        **document,
        "TrainingJobArn": arn_of(Resource(TRAINING, call.region, request["TrainingJobName"], {})),
        "OutputDataConfig": {"KmsKeyId": "", "CompressionType": "GZIP", **output},
        "StoppingCondition": {
            "MaxRuntimeInSeconds": _MAX_RUNTIME,
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
