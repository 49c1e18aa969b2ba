"""Operations on notebook instances.

The messages about states are AWS's: `Status (Stopped) not in ([InService]). Unable to transition to (Stopping) for …`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gpuproof_emulator.execution.notebooks.presigned import new_url
from gpuproof_emulator.operations.call import OperationCall, add_resource, check_role, request_tags
from gpuproof_emulator.operations.create_checks import check_quota_and_capacity
from gpuproof_emulator.operations.list import Listing
from gpuproof_emulator.operations.notebook_lifecycle_configs import find_config
from gpuproof_emulator.operations.request_checks import check_keys, check_network
from gpuproof_emulator.protocol import AwsError, now
from gpuproof_emulator.store import NOTEBOOK, Resource, resource_arn

_STATUS = "NotebookInstanceStatus"
_CONFIG = "NotebookInstanceLifecycleConfigName"
_PLATFORM = "notebook-al2023-v1"  # the default that botocore's model of CreateNotebookInstance documents
_VOLUME_GB = 5
_UNSUPPORTED = ("AcceleratorTypes", "DefaultCodeRepository", "AdditionalCodeRepositories")
_MISSING = "RecordNotFound"


def create(call: OperationCall) -> dict[str, Any]:
    """`CreateNotebookInstance`."""
    request = call.request
    _reject_unsupported(request)
    _check_network(call)
    check_role(call, request["RoleArn"])
    check_keys(call, request.get("KmsKeyId"))
    if config := request.get("LifecycleConfigName"):
        find_config(call, config)
    name, moment = request["NotebookInstanceName"], now()
    document: dict[str, Any] = {
        "NotebookInstanceName": name,
        "NotebookInstanceArn": resource_arn(NOTEBOOK, call.region, name),
        _STATUS: "Pending",
        "Url": f"{name}.notebook.{call.region}.sagemaker.aws",
        "InstanceType": request["InstanceType"],
        "RoleArn": request["RoleArn"],
        "CreationTime": moment,
        "LastModifiedTime": moment,
        "DirectInternetAccess": request.get("DirectInternetAccess", "Enabled"),
        "VolumeSizeInGB": request.get("VolumeSizeInGB", _VOLUME_GB),
        "RootAccess": request.get("RootAccess", "Enabled"),
        "PlatformIdentifier": request.get("PlatformIdentifier", _PLATFORM),
        "InstanceMetadataServiceConfiguration": request.get(
            "InstanceMetadataServiceConfiguration", {"MinimumInstanceMetadataServiceVersion": "1"}
        ),
        "SubnetId": request.get("SubnetId"),
        "SecurityGroups": request.get("SecurityGroupIds"),
        "KmsKeyId": request.get("KmsKeyId"),
        _CONFIG: request.get("LifecycleConfigName"),
    }
    notebook = Resource(NOTEBOOK, call.region, name, document, request_tags(request))
    with call.context.store.locked():
        if call.context.store.get(NOTEBOOK, call.region, name) is None:
            check_quota_and_capacity(call, "notebook", name, request["InstanceType"], 1)
        arn = _add(call, notebook)
    call.notebooks.create(notebook)
    return {"NotebookInstanceArn": arn}


def describe(call: OperationCall) -> dict[str, Any]:
    """`DescribeNotebookInstance`."""
    return call.wait_until_settled(_find(call), _STATUS).document


def start(call: OperationCall) -> dict[str, Any]:
    """`StartNotebookInstance`."""
    notebook = _find(call)
    if config := notebook.document.get(_CONFIG):
        find_config(call, config)
    with call.context.store.locked():
        _require(notebook, ("Stopped", "Failed"), "Pending")
        check_quota_and_capacity(call, "notebook", notebook.name, notebook.document["InstanceType"], 1)
        _set_status(call, notebook, "Pending")
    call.notebooks.start(notebook)
    return {}


def stop(call: OperationCall) -> dict[str, Any]:
    """`StopNotebookInstance`."""
    notebook = _find(call)
    with call.context.store.locked():
        _require(notebook, ("InService",), "Stopping")
        _set_status(call, notebook, "Stopping")
    call.notebooks.stop(notebook)
    return {}


def delete(call: OperationCall) -> dict[str, Any]:
    """`DeleteNotebookInstance`."""
    notebook = _find(call)
    with call.context.store.locked():
        _require(notebook, ("Stopped", "Failed"), "Deleting")
        _set_status(call, notebook, "Deleting")
    call.notebooks.delete(notebook)
    return {}


def update(call: OperationCall) -> dict[str, Any]:
    """`UpdateNotebookInstance`: the instance is `Updating` for a moment, then `Stopped` again."""
    request, notebook = call.request, _find(call)
    _reject_unsupported(request)
    if role := request.get("RoleArn"):
        check_role(call, role)
    if config := request.get("LifecycleConfigName"):
        find_config(call, config)
    changes = {
        name: request[name]
        for name in (
            "InstanceType",
            "PlatformIdentifier",
            "RoleArn",
            "VolumeSizeInGB",
            "RootAccess",
            "InstanceMetadataServiceConfiguration",
        )
        if request.get(name) is not None
    }
    if request.get("DisassociateLifecycleConfig"):
        changes[_CONFIG] = None
    if config:
        changes[_CONFIG] = config
    with call.context.store.locked():
        _require(notebook, ("Stopped", "Failed"), "Updating")
        if changes.get("VolumeSizeInGB", 1 << 20) < notebook.document["VolumeSizeInGB"]:
            raise AwsError(
                "ValidationException", "The volume size of a notebook instance cannot be decreased."
            )
        _set_status(call, notebook, "Updating")
    call.notebooks.update(notebook, changes)
    return {}


def presigned_url(call: OperationCall) -> dict[str, Any]:
    """`CreatePresignedNotebookInstanceUrl`."""
    notebook = _find(call)
    _require(notebook, ("InService",), "InService")
    return {"AuthorizedUrl": new_url(call.context, notebook)}


def _matches(document: Mapping[str, Any], request: Mapping[str, Any]) -> bool:
    """Whether a notebook instance matches the filters that only their listing has."""
    part = request.get("NotebookInstanceLifecycleConfigNameContains")
    # No notebook instance of the emulator has a code repository.
    repository = request.get("DefaultCodeRepositoryContains") or request.get("AdditionalCodeRepositoryEquals")
    return not repository and (not part or part.lower() in (document.get(_CONFIG) or "").lower())


OPERATIONS = {
    "CreateNotebookInstance": create,
    "DescribeNotebookInstance": describe,
    "ListNotebookInstances": Listing(NOTEBOOK, "NotebookInstances", _STATUS, also=_matches).list_page,
    "StartNotebookInstance": start,
    "StopNotebookInstance": stop,
    "DeleteNotebookInstance": delete,
    "UpdateNotebookInstance": update,
    "CreatePresignedNotebookInstanceUrl": presigned_url,
}


def _find(call: OperationCall) -> Resource:
    return call.find(NOTEBOOK, call.request["NotebookInstanceName"], _MISSING)


def _add(call: OperationCall, notebook: Resource) -> str:
    try:
        return add_resource(call, notebook, "Cannot create a duplicate Notebook Instance ({arn})")
    except AwsError as error:
        raise AwsError("ValidationException", error.message) from error


def _require(notebook: Resource, allowed: tuple[str, ...], following: str) -> None:
    """Reject an operation that the status of the notebook instance does not allow."""
    status = notebook.document[_STATUS]
    if status not in allowed:
        raise AwsError(
            "ValidationException",
            f"Status ({status}) not in ([{', '.join(allowed)}]). Unable to transition to ({following}) for Notebook "
            f"Instance ({notebook.arn})",
        )


def _set_status(call: OperationCall, notebook: Resource, status: str) -> None:
    with call.context.store.modify(notebook):
        notebook.document[_STATUS] = status
        notebook.document.pop("FailureReason", None)


def _reject_unsupported(request: Mapping[str, Any]) -> None:
    names = [name for name in _UNSUPPORTED if request.get(name)]
    if request.get("IpAddressType") == "dualstack":
        names.append("IpAddressType dualstack")
    if names:
        raise AwsError(
            "NotImplemented", f"This emulator does not support {', '.join(names)} of notebook instances."
        )


def _check_network(call: OperationCall) -> None:
    request = call.request
    subnet, groups = request.get("SubnetId"), request.get("SecurityGroupIds")
    if groups and not subnet:
        raise AwsError("ValidationException", "SecurityGroupIds requires SubnetId.")
    if request.get("DirectInternetAccess") == "Disabled" and not subnet:
        raise AwsError("ValidationException", "DirectInternetAccess can be Disabled only if SubnetId is set.")
    if subnet:
        check_network(call, {"Subnets": [subnet], "SecurityGroupIds": groups or ()})
