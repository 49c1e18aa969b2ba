"""Finds the SageMaker jobs, Batch jobs and ECS tasks that the states of a Step Functions state machine start."""

from __future__ import annotations

import re
from collections.abc import Iterator

from gpuproof.linter.analysis.values import Entries, Value, known
from gpuproof.linter.jobs.definition import JobDefinition
from gpuproof.linter.jobs.readers import containers
from gpuproof.linter.jobs.readers.boto3 import OPERATIONS, request_jobs
from gpuproof.linter.source.span import Span
from gpuproof.linter.templates.resource import Resource

_TASK = re.compile(r"states:::(?:aws-sdk:)?(?P<service>sagemaker|batch|ecs):(?P<action>\w+)")
_MACHINES = ("AWS::StepFunctions::StateMachine", "AWS::Serverless::StateMachine", "aws_sfn_state_machine")
_DEFINITIONS = ("Definition", "DefinitionString", "definition")
_DEPTH = 8


def jobs_of_resource(resource: Resource) -> Iterator[JobDefinition]:
    """The jobs of the state machine of a resource; none if its definition is in a file of its own."""
    if resource.type not in _MACHINES:
        return
    for name in _DEFINITIONS:
        definition = containers.read_text(resource, resource.get(name))
        if definition.entries is not None:
            yield from jobs(definition, resource.span)


def jobs(definition: Value, span: Span) -> Iterator[JobDefinition]:
    """The jobs that the states of a definition in the Amazon States Language start.

    Source: https://docs.aws.amazon.com/step-functions/latest/dg/connect-sagemaker.html.
    """
    for state in _states(definition, 0):
        found = _TASK.search(state.at("Resource").text or "")
        if found is None:
            continue
        request = _static(state.at("Parameters") if "Parameters" in state.parts else state.at("Arguments"))
        where = request.span or state.span or span
        operation = re.sub(r"(?<!^)([A-Z])", r"_\1", found["action"]).lower()
        if operation in OPERATIONS:
            yield from request_jobs(operation, request, where)
        elif operation == "submit_job":
            yield from containers.container_job(request.at("ContainerOverrides"), "batch:submitJob", where)
        elif operation == "run_task":
            for container in request.at("Overrides", "ContainerOverrides").items or ():
                yield from containers.container_job(container, "ecs:runTask", where)


def _states(definition: Value, depth: int) -> Iterator[Value]:
    if depth > _DEPTH:
        return
    for state in definition.at("States").parts.values():
        yield state
        for name in ("Iterator", "ItemProcessor"):
            yield from _states(state.at(name), depth + 1)
        for branch in state.at("Branches").items or ():
            yield from _states(branch, depth + 1)


def _static(value: Value) -> Value:
    """A value without what is only known when the state runs: `Name.$` paths, and texts of JSONata."""
    if value.entries is not None:
        entries = Entries()
        for key, item in value.entries.items():
            name = str(key)
            entries[name.removesuffix(".$")] = (
                Value("unknown", (), item.span) if name.endswith(".$") else _static(item)
            )
        return known(entries, value.span)
    if value.items is not None:
        return known(tuple(map(_static, value.items)), value.span)
    if (value.text or "").startswith(("{%", "$.", "$$.")):
        return Value("unknown", (), value.span)
    return value
