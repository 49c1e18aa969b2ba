"""Operations on the lifecycle configurations of notebook instances: scripts that run when one is created or started."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from typing import Any

from gpuproof_emulator.operations.call import OperationCall, request_tags
from gpuproof_emulator.operations.list import Listing
from gpuproof_emulator.protocol import AwsError, now
from gpuproof_emulator.store import LIFECYCLE_CONFIG, Resource, resource_arn

_NAME = "NotebookInstanceLifecycleConfigName"
_ARN = "NotebookInstanceLifecycleConfigArn"
_HOOKS = ("OnCreate", "OnStart")


def find_config(call: OperationCall, name: str, doing: str = "describe") -> Resource:
    """A lifecycle configuration in the call's region.

    Raises:
        AwsError: it does not exist.
    """
    arn = resource_arn(LIFECYCLE_CONFIG, call.region, name)
    missing = (
        f"Unable to {doing} Notebook Instance Lifecycle Config '{arn}'. (Details: Notebook Instance Lifecycle Config"
        " does not exist.)"
    )
    return call.find(LIFECYCLE_CONFIG, name, missing)


def create(call: OperationCall) -> dict[str, Any]:
    """`CreateNotebookInstanceLifecycleConfig`."""
    _check_scripts(call.request)
    name, moment = call.request[_NAME], now()
    arn = resource_arn(LIFECYCLE_CONFIG, call.region, name)
    document = {
        _NAME: name,
        _ARN: arn,
        "CreationTime": moment,
        "LastModifiedTime": moment,
        **_scripts(call.request),
    }
    config = Resource(LIFECYCLE_CONFIG, call.region, name, document, request_tags(call.request))
    if not call.context.store.add(config):
        raise AwsError(
            "ValidationException",
            f"Unable to create Notebook Instance Lifecycle Config {arn}. (Details: Notebook Instance Lifecycle Config"
            " already exists.)",
        )
    return {_ARN: arn}


def describe(call: OperationCall) -> dict[str, Any]:
    """`DescribeNotebookInstanceLifecycleConfig`."""
    return find_config(call, call.request[_NAME]).document


def update(call: OperationCall) -> dict[str, Any]:
    """`UpdateNotebookInstanceLifecycleConfig`."""
    config = find_config(call, call.request[_NAME], "update")
    _check_scripts(call.request)
    with call.context.store.modify(config):
        config.document.update(_scripts(call.request))
    return {}


def delete(call: OperationCall) -> dict[str, Any]:
    """`DeleteNotebookInstanceLifecycleConfig`."""
    call.context.store.remove(find_config(call, call.request[_NAME], "delete"))
    return {}


OPERATIONS = {
    "CreateNotebookInstanceLifecycleConfig": create,
    "DescribeNotebookInstanceLifecycleConfig": describe,
    "ListNotebookInstanceLifecycleConfigs": Listing(
        LIFECYCLE_CONFIG, "NotebookInstanceLifecycleConfigs"
    ).list_page,
    "UpdateNotebookInstanceLifecycleConfig": update,
    "DeleteNotebookInstanceLifecycleConfig": delete,
}


def _scripts(request: Mapping[str, Any]) -> dict[str, Any]:
    return {hook: request[hook] for hook in _HOOKS if request.get(hook)}


def _check_scripts(request: Mapping[str, Any]) -> None:
    """Reject scripts that are not in base64; botocore's model has the limit of 16,384 characters."""
    for hook in _HOOKS:
        for script in request.get(hook) or ():
            try:
                base64.b64decode(script.get("Content", ""), validate=True)
            except binascii.Error as error:
                raise AwsError(
                    "ValidationException", f"The content of {hook} is not encoded in base64."
                ) from error
