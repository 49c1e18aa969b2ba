"""Finds what containers and instances with GPUs run: Batch job definitions, ECS task definitions, EC2 user data."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from typing import Any

from gpuproof.linter.analysis.call import calls_named
from gpuproof.linter.analysis.module import Module
from gpuproof.linter.analysis.values import ABSENT, Entries, Value, known
from gpuproof.linter.jobs.definition import JobDefinition
from gpuproof.linter.source.span import Span
from gpuproof.linter.templates.resource import Resource

_BATCH = ("AWS::Batch::JobDefinition", "aws_batch_job_definition")
_ECS = ("AWS::ECS::TaskDefinition", "aws_ecs_task_definition")
OPERATIONS = {
    "register_job_definition": "containerProperties",
    "register_task_definition": "containerDefinitions",
}
"""Operations of boto3 that describe containers, with the argument that does."""
_EC2 = {
    "AWS::EC2::Instance": ("InstanceType", "UserData"),
    "aws_instance": ("instance_type", "user_data"),
    "aws_spot_instance_request": ("instance_type", "user_data"),
    "aws_launch_template": ("instance_type", "user_data"),
}
"""Instance type and user data of resources that start instances."""
_GPU_TYPE = re.compile(r"(?:p|g|gr)\d\w*\.")


def jobs(resource: Resource) -> Iterator[JobDefinition]:
    """The containers of a resource, and the user data of an instance.

    Source: https://docs.aws.amazon.com/batch/latest/userguide/job_definition_parameters.html and
    https://docs.aws.amazon.com/AmazonECS/latest/developerguide/ecs-gpu-specifying.html.
    """
    if resource.type in _BATCH:
        containers = _batch_containers(resource)
    elif resource.type in _ECS:
        containers = list(_member(resource, "ContainerDefinitions", "container_definitions").items or ())
    elif (names := _EC2.get(resource.type)) is not None:
        yield from _instance(resource, *names)
        return
    else:
        return
    title = resource.title
    for container in containers:
        yield from container_job(container, title, resource.span)


def jobs_of_module(module: Module) -> Iterator[JobDefinition]:
    """The containers with GPUs that a module registers with boto3."""
    for call in calls_named(module, *OPERATIONS):
        described = call.argument(OPERATIONS[call.method])
        for container in described.items or (described,):
            for job in container_job(container, call.method, call.span):
                yield replace(job, call=call, module=module)


def jobs_of_request(request: Value, span: Span) -> Iterator[JobDefinition]:
    """The containers with GPUs in a request: `aws batch register-job-definition --cli-input-json`."""
    for operation, member in OPERATIONS.items():
        described = request.at(member) if member in request.parts else ABSENT
        for container in described.items or (described,):
            yield from container_job(container, operation, span)


def container_job(container: Value, title: str, span: Span) -> Iterator[JobDefinition]:
    """The command of one container, with the GPUs that it asks for; nothing if it leaves the command to its image.

    Args:
        container: its properties, in the case of the API or of CloudFormation.
    """
    gpus = _gpus(container)
    entry, command = member(container, "EntryPoint"), member(container, "Command")
    if gpus.is_absent or (entry.is_absent and command.is_absent):
        return
    if entry.items is None and not entry.is_absent:
        return
    words = command.items if command.items is not None or command.is_absent else None
    yield JobDefinition(
        kind="training",
        source="container",
        api=title,
        span=command.span or span,
        instance_count=known(1),
        gpu_count=gpus,
        image=member(container, "Image"),
        environment=_environment(member(container, "Environment")),
        arguments={} if entry.is_absent else {"EntryPoint": entry},
        command=known((*(entry.items or ()), *(words or ())), command.span or entry.span),
    )


def value_of(document: Any, span: Span | None) -> Value:
    """A parsed JSON document as a value; all of it has the position of the text."""
    if isinstance(document, dict):
        return known(Entries({str(key): value_of(item, span) for key, item in document.items()}), span)
    if isinstance(document, list):
        return known(tuple(value_of(item, span) for item in document), span)
    if isinstance(document, str) and "${" in document:
        return Value("unknown", (), span, prefix=document.partition("${")[0])
    return known(document, span)


def read_text(resource: Resource, value: Value) -> Value:
    """A value, or the JSON document that it has as a text, with placeholders as unknown values."""
    text = resource.text_of(value)
    if text is None or not text.lstrip().startswith(("{", "[")):
        return value
    with suppress(ValueError):
        return value_of(json.loads(text), value.span)
    return value


def _batch_containers(resource: Resource) -> list[Value]:
    found = [_member(resource, "ContainerProperties", "container_properties")]
    ecs = _member(resource, "EcsProperties", "ecs_properties")
    for task in member(ecs, "TaskProperties").items or ():
        found += member(task, "Containers").items or ()
    nodes = _member(resource, "NodeProperties", "node_properties")
    for group in member(nodes, "NodeRangeProperties").items or ():
        found.append(member(group, "Container"))
    return [container for container in found if container.entries is not None]


def _instance(resource: Resource, type_: str, data: str) -> Iterator[JobDefinition]:
    script = resource.get(data)
    if not any(_GPU_TYPE.match(text) for text in resource.get(type_).texts):
        return
    text, file = resource.text_of(script), resource.file_of(script)
    if text is None and file is None:
        return
    yield JobDefinition(
        kind="training",
        source="container",
        api=resource.title,
        span=script.span or resource.span,
        instance_type=resource.get(type_),
        instance_count=known(1),
        command=known(text if text is not None else f"bash {file}", script.span),
    )


def _gpus(container: Value) -> Value:
    for requirement in member(container, "ResourceRequirements").items or ():
        if (member(requirement, "Type").text or "").upper() == "GPU":
            count = member(requirement, "Value")
            text = str(count.value) if count.is_known else ""
            return known(int(text), count.span) if text.isdigit() else Value("unknown", (), count.span)
    return known(0, container.span) if _asks_for_none(container) else ABSENT


def _asks_for_none(container: Value) -> bool:
    """Whether all that a container asks for is known."""
    requirements = member(container, "ResourceRequirements")
    listed = () if requirements.is_absent else requirements.items
    entries = container.entries
    return (
        entries is not None
        and entries.complete
        and listed is not None
        and all(member(item, "Type").text is not None for item in listed)
    )


def _environment(listed: Value) -> Value:
    if listed.items is None:
        return listed if listed.is_absent else Value("unknown", (), listed.span)
    pairs = {member(item, "Name").text: member(item, "Value") for item in listed.items}
    return known(Entries({name: value for name, value in pairs.items() if name is not None}), listed.span)


def _member(resource: Resource, *names: str) -> Value:
    value = next((found for name in names if not (found := resource.get(name)).is_absent), ABSENT)
    return read_text(resource, value)


def member(value: Value, name: str) -> Value:
    """A member in the case of CloudFormation or in that of the API."""
    if value.entries is None:
        return ABSENT if value.is_absent else Value("unknown", (), value.span)
    found = value.at(name)
    return found if not found.is_absent else value.at(name[:1].lower() + name[1:])
