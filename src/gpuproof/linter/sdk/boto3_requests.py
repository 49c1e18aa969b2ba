"""Finds requests of boto3 and in JSON files, and pairs their members with shapes of botocore's service model."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from gpuproof.linter.analysis.call import Call, calls_named, origin_call
from gpuproof.linter.analysis.module import Module
from gpuproof.linter.analysis.types import TypeKind, type_of
from gpuproof.linter.analysis.values import Entries, Value, known
from gpuproof.linter.jobs.commands.aws_cli import cli_requests
from gpuproof.linter.jobs.readers.boto3 import DOCUMENTS
from gpuproof.linter.sdk import Operation, Shape, botocore_operation
from gpuproof.linter.source.span import Span, Unit

METHODS = {
    "create_training_job": "sagemaker",
    "create_processing_job": "sagemaker",
    "create_model": "sagemaker",
    "create_endpoint_config": "sagemaker",
    "create_endpoint": "sagemaker",
    "create_transform_job": "sagemaker",
    "create_notebook_instance": "sagemaker",
    "create_hyper_parameter_tuning_job": "sagemaker",
    "run_instances": "ec2",
}
"""The boto3 client methods that are checked, with their service."""


@dataclass(frozen=True, eq=False)
class Boto3Request:
    """One request.

    Args:
        call: the call; None for the request of a JSON or YAML file.
        members: the members; `.entries.complete` if these are all.
        span: its position.
    """

    call: Call | None
    operation: Operation
    members: Value
    span: Span


@dataclass(frozen=True, eq=False)
class RequestMember:
    """One member of a request, at any depth.

    Args:
        path: its path: `ResourceConfig.InstanceCount`.
        shape: its shape; None for an unknown member.
        owner: the shape that contains it.
    """

    path: str
    shape: Shape | None
    value: Value
    owner: Shape


def boto3_requests(module: Module) -> Iterator[Boto3Request]:
    """The requests of a module whose members are keyword arguments."""
    for call in calls_named(module, *METHODS):
        members = call.arguments()
        is_request = all(name[:1].isupper() for name in members)
        if call.receiver is None or call.node.args or not is_request:
            continue
        operation = botocore_operation(call.method, METHODS[call.method])
        if operation is None or not _is_request_of(operation, call, members):
            continue
        given = Entries(members)
        given.complete = not call.is_open
        yield Boto3Request(call, operation, known(given, call.span), call.span)


def document_requests(unit: Unit) -> Iterator[Boto3Request]:
    """The request in a JSON or YAML file for `aws sagemaker create-… --cli-input-json`, and those of the AWS CLI in commands."""
    if unit.kind in ("shell", "makefile"):
        for found in cli_requests(unit):
            # The AWS CLI has options of its own for EC2: `--count`.
            is_checked = found.service == "sagemaker" and found.operation in METHODS
            operation = botocore_operation(found.operation) if is_checked else None
            if operation is not None:
                yield Boto3Request(None, operation, found.members, found.span)
        return
    if unit.kind != "request":
        return
    from gpuproof.linter.templates import cloudformation  # yaml: only where such a file is

    members = cloudformation.document(unit)
    method = next((DOCUMENTS[name] for name in DOCUMENTS if name in members.parts), None)
    operation = botocore_operation(method, METHODS[method]) if method is not None else None
    # The description of a job has its name, too, and members that no request has.
    if operation is None or "CreationTime" in members.parts or "ResponseMetadata" in members.parts:
        return
    yield Boto3Request(None, operation, members, members.span or unit.span(1))


def request_members(request: Boto3Request) -> Iterator[RequestMember]:
    """Every member of a request, outer members first."""
    yield from _parts(request.operation, request.operation.input, request.members, "")


def _parts(operation: Operation, shape: Shape, value: Value, path: str) -> Iterator[RequestMember]:
    if shape.type == "structure" and value.entries is not None:
        for name, inner in value.entries.items():
            if not isinstance(name, str):
                continue
            own = operation.service.shape(shape.members[name]) if name in shape.members else None
            place = f"{path}.{name}" if path else name
            yield RequestMember(place, own, inner, shape)
            if own is not None:
                yield from _parts(operation, own, inner, place)
    elif shape.type in ("list", "map") and shape.item and (item := operation.service.shape(shape.item)):
        inside = (
            list(enumerate(value.items or ()))
            if shape.type == "list"
            else list((value.entries or {}).items())
        )
        for key, inner in inside:
            place = f"{path}[{key}]" if shape.type == "list" else f"{path}.{key}"
            yield RequestMember(place, item, inner, shape)
            yield from _parts(operation, item, inner, place)


def _is_request_of(operation: Operation, call: Call, members: Mapping[str, Value]) -> bool:
    """Whether a call is a request of that operation: other AWS services have a `create_model` or `create_endpoint`, too."""
    made = origin_call(call.module, call.receiver)
    if made is not None and made.method in ("client", "resource"):
        service = made.argument("service_name", 0)
        if service.text is not None:
            return service.text == METHODS[call.method]
    kind = type_of(call.module, call.receiver).kind
    if kind is TypeKind.CLIENT:
        return True
    known_members = sum(name in operation.input.members for name in members)
    return kind is None and 2 * known_members > len(members)
