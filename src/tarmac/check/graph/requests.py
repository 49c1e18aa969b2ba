"""Jobs that boto3 describes: the requests whose members name an instance type."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from tarmac.check.job import JobDefinition, Kind, Mount
from tarmac.check.module import Call, Module
from tarmac.check.span import Span
from tarmac.check.values import ABSENT, UNKNOWN, Entries, Value, known

OPERATIONS: dict[str, Kind] = {
    "create_training_job": "training",
    "create_processing_job": "processing",
    "create_endpoint_config": "endpoint",
    "create_transform_job": "transform",
    "create_notebook_instance": "notebook",
    "update_notebook_instance": "notebook",
}
"""Operations of `boto3.client("sagemaker")` that describe a job, and its kind."""


def jobs(module: Module) -> Iterator[JobDefinition]:
    """The jobs that a module asks boto3 for."""
    for call in module.calls_of(*OPERATIONS):
        arguments = call.arguments()
        request = Entries(arguments)
        request.complete = not call.is_open
        if not call.node.args:
            yield from request_jobs(call.method, known(request, call.span), call.span, module, call)


def request_jobs(
    operation: str, request: Value, span: Span, module: Module, call: Call | None = None
) -> Iterator[JobDefinition]:
    """The jobs that one request describes: an endpoint configuration has one for each variant.

    Args:
        operation: as boto3 spells it, `create_training_job`.
        request: its members.
        span: where it is written.
        module: the module that is being read.
        call: the call itself.
    """
    kind = OPERATIONS[operation]
    arguments = request.parts
    common = {
        "kind": kind,
        "source": "boto3",
        "api": operation,
        "project": module.project,
        "arguments": arguments,
    }
    common |= {"call": call, "module": module}
    if kind == "endpoint":
        for variant in request.at("ProductionVariants").items or ():
            yield JobDefinition(
                **common,
                span=variant.span or span,
                instance_type=variant.at("InstanceType"),
                instance_count=variant.at("InitialInstanceCount"),
            )
        return
    yield JobDefinition(**common, span=span, **_members(kind, request))


def _members(kind: Kind, request: Value) -> Mapping[str, object]:
    match kind:
        case "training":
            hyperparameters = request.at("HyperParameters")
            channels, complete = _channels(request.at("InputDataConfig"))
            return {
                "instance_type": request.at("ResourceConfig", "InstanceType"),
                "instance_count": request.at("ResourceConfig", "InstanceCount"),
                "image": request.at("AlgorithmSpecification", "TrainingImage"),
                "hyperparameters": hyperparameters,
                "environment": request.at("Environment"),
                "entry_point": _program(hyperparameters),
                "channels": channels,
                "channels_known": complete,
            }
        case "processing":
            cluster = ("ProcessingResources", "ClusterConfig")
            return {
                "instance_type": request.at(*cluster, "InstanceType"),
                "instance_count": request.at(*cluster, "InstanceCount"),
                "image": request.at("AppSpecification", "ImageUri"),
                "environment": request.at("Environment"),
                "container_arguments": request.at("AppSpecification", "ContainerArguments"),
                "inputs": _inputs(request.at("ProcessingInputs")),
                "outputs": _outputs(request.at("ProcessingOutputConfig", "Outputs")),
            }
        case "transform":
            return {
                "instance_type": request.at("TransformResources", "InstanceType"),
                "instance_count": request.at("TransformResources", "InstanceCount"),
                "environment": request.at("Environment"),
            }
        case _:
            return {"instance_type": request.at("InstanceType")}


def _program(hyperparameters: Value) -> Value:
    program = hyperparameters.at("sagemaker_program")
    text = program.text
    return known(text.strip('"'), program.span) if text is not None and program.is_known else program


def _channels(listed: Value) -> tuple[dict[str, Value], bool]:
    channels: dict[str, Value] = {}
    complete = listed.is_absent or listed.items is not None
    for item in listed.items or ():
        name = item.at("ChannelName").text
        if name is None:
            complete = False
        else:
            channels[name] = item.at("DataSource", "S3DataSource", "S3Uri")
    return channels, complete


def _inputs(listed: Value) -> tuple[Mount, ...] | None:
    if listed.items is None:
        return () if listed.is_absent else None
    return tuple(
        Mount(one.at("S3Input", "LocalPath"), one.at("S3Input", "S3Uri"), one.at("InputName"), one.span)
        for one in listed.items
    )


def _outputs(listed: Value) -> tuple[Mount, ...] | None:
    if listed.items is None:
        return () if listed.is_absent else None
    return tuple(
        Mount(one.at("S3Output", "LocalPath"), one.at("S3Output", "S3Uri"), one.at("OutputName"), one.span)
        for one in listed.items
    )


__all__ = ["ABSENT", "OPERATIONS", "UNKNOWN", "jobs", "request_jobs"]
