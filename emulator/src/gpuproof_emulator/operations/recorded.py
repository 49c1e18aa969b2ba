"""SageMaker's operations that the emulator does not run: tuning, pipelines and others are recorded by moto."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from typing import Any

from gpuproof_emulator.operations.call import request_tags
from gpuproof_emulator.operations.search import SEARCHED
from gpuproof_emulator.protocol import AwsError, AwsRequest, AwsResponse
from gpuproof_emulator.routing import OperationName
from gpuproof_emulator.store import KINDS

NOTE = ("x-gpuproof-note", "recorded, not run")
"""Header of every response to such an operation."""

_TAG_OPERATIONS = ("AddTags", "ListTags", "DeleteTags")


def is_recorded(operation: str, request: Mapping[str, Any]) -> bool:
    """Whether a supported operation is about a resource that only moto has."""
    if operation == "Search":
        return request["Resource"] not in SEARCHED
    if operation in _TAG_OPERATIONS:
        return request["ResourceArn"].rpartition(":")[2].partition("/")[0] not in KINDS
    return False


def record_only(
    handle: Callable[[AwsRequest, OperationName], AwsResponse], request: AwsRequest, name: OperationName
) -> AwsResponse:
    """Let moto handle an operation; the response and, for a change, the emulator's log state that nothing runs.

    Raises:
        AwsError: moto does not support the operation either, or the request's tags are invalid.
    """
    request_tags(request.document())
    try:
        response = handle(request, name)
    except AwsError as error:
        raise AwsError(
            "UnknownOperationException", f"This emulator does not support sagemaker:{name.operation}."
        ) from error
    if response.status < 400 and not name.read_only:
        print(f"gpuproof: sagemaker:{name.operation}: recorded, not run.", file=sys.stderr, flush=True)
    return AwsResponse(response.status, (*response.headers, NOTE), response.body)
