"""Finds jobs in requests of boto3."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from gpuproof.linter.analysis.call import Call, calls_named
from gpuproof.linter.analysis.module import Module
from gpuproof.linter.analysis.values import ABSENT, UNKNOWN, Entries, Value, known
from gpuproof.linter.jobs.definition import JobDefinition, Kind, ProcessingMount
from gpuproof.linter.source.span import Span

OPERATIONS: dict[str, Kind] = {
    "create_training_job": "training",
    "create_processing_job": "processing",
    "create_endpoint_config": "endpoint",
    "create_transform_job": "transform",
    "create_notebook_instance": "notebook",
    "update_notebook_instance": "notebook",
}
"""Operations of `boto3.client("sagemaker")` that describe a job, with the kind of job."""

DOCUMENTS = {
    "TrainingJobName": "create_training_job",
    "ProcessingJobName": "create_processing_job",
    "EndpointConfigName": "create_endpoint_config",
    "TransformJobName": "create_transform_job",
    "NotebookInstanceName": "create_notebook_instance",
}
"""Members by which a JSON or YAML text (`--cli-input-json`) is recognised as a request, with the boto3 method."""

_SERVING = ("endpoint", "transform")
_VARIANT_MEMBERS = ("ModelName", "InferenceAmiVersion")
"""Members of a production variant that are arguments of its job, too."""


def jobs(module: Module) -> Iterator[JobDefinition]:
    """The jobs that a module creates with boto3."""
    for call in calls_named(module, *OPERATIONS):
        arguments = call.arguments()
        request = Entries(arguments)
        request.complete = not call.is_open
        if not call.node.args:
            for job in request_jobs(call.method, known(request, call.span), call.span, call):
                yield replace(job, **_served(job)) if job.kind in _SERVING else job


def _served(job: JobDefinition) -> dict[str, Value]:
    """The image and the environment of the model that an endpoint or a batch transform serves."""
    container = _served_container(job)
    own = job.environment
    environment = container.at("Environment") if container is not None and own.is_absent else own
    return {"image": served_image(job), "environment": environment}


def served_image(job: JobDefinition) -> Value:
    """The container image of the model that an endpoint or a batch transform serves by name.

    The model is the one that the same file creates with this name; unknown if the file creates none.
    """
    if job.module is None or not job.image.is_absent:
        return job.image
    container = _served_container(job)
    return container.at("Image") if container is not None else UNKNOWN


def _served_container(job: JobDefinition) -> Value | None:
    """The container of the model that the same file creates with the name that a job serves; None if it creates none."""
    if job.module is None:
        return None
    name = job.argument("model_name" if job.source == "sagemaker-v2" else "ModelName")
    for call in calls_named(job.module, "create_model"):
        created = call.argument("ModelName")
        if not _is_same(name, created):
            continue
        container = call.argument("PrimaryContainer")
        if container.is_absent:
            container = call.argument("Containers").at(0)
        return container
    return None


def _is_same(one: Value, other: Value) -> bool:
    """Whether two values are the same text, or are written as the same expression."""
    if one.text is not None or other.text is not None:
        return one.text == other.text
    spans = (one.span, other.span)
    return all(span is not None and _written(span) for span in spans) and len(set(map(_written, spans))) == 1


def _written(span: Span | None) -> str:
    if span is None or span.line != span.end_line:
        return ""
    return span.text[span.column - 1 : span.end_column - 1]


def request_jobs(
    operation: str, request: Value, span: Span, call: Call | None = None
) -> Iterator[JobDefinition]:
    """The jobs of one request; an endpoint configuration has one for each variant.

    Args:
        operation: the boto3 method, such as `create_training_job`.
        call: the call; None outside Python.
    """
    kind = OPERATIONS[operation]
    common = JobDefinition(
        kind=kind,
        source="boto3",
        api=operation,
        span=span,
        environment=request.at("Environment"),
        arguments={str(key): value for key, value in request.parts.items()},
        call=call,
        module=call.module if call is not None else None,
    )
    match kind:
        case "endpoint":
            for variant in request.at("ProductionVariants").items or ():
                members = {name: variant.at(name) for name in _VARIANT_MEMBERS}
                own = replace(common, span=variant.span or span, arguments={**common.arguments, **members})
                yield _with_cluster(own, variant, "InitialInstanceCount")
        case "training":
            yield _training(_with_cluster(common, request.at("ResourceConfig")), request)
        case "processing":
            cluster = request.at("ProcessingResources", "ClusterConfig")
            yield _processing(_with_cluster(common, cluster), request)
        case "transform":
            yield _with_cluster(common, request.at("TransformResources"))
        case _:
            yield replace(common, instance_type=request.at("InstanceType"))


def _with_cluster(job: JobDefinition, cluster: Value, count: str = "InstanceCount") -> JobDefinition:
    return replace(job, instance_type=cluster.at("InstanceType"), instance_count=cluster.at(count))


def _training(job: JobDefinition, request: Value) -> JobDefinition:
    channels, complete = _channels(request.at("InputDataConfig"))
    hyperparameters = request.at("HyperParameters")
    return replace(
        job,
        image=request.at("AlgorithmSpecification", "TrainingImage"),
        hyperparameters=hyperparameters,
        entry_point=_program(hyperparameters),
        command=_command(request.at("AlgorithmSpecification")),
        channels=channels,
        channels_known=complete,
    )


def _processing(job: JobDefinition, request: Value) -> JobDefinition:
    return replace(
        job,
        image=request.at("AppSpecification", "ImageUri"),
        container_arguments=request.at("AppSpecification", "ContainerArguments"),
        command=_command(request.at("AppSpecification")),
        inputs=_mounts(request.at("ProcessingInputs"), "S3Input", "InputName"),
        outputs=_mounts(request.at("ProcessingOutputConfig", "Outputs"), "S3Output", "OutputName"),
    )


def _command(specification: Value) -> Value:
    """The command of a container; absent if the image's own entry point runs."""
    entry, arguments = specification.at("ContainerEntrypoint"), specification.at("ContainerArguments")
    if entry.items is None:
        return ABSENT
    return known((*entry.items, *(arguments.items or ())), entry.span)


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


def _mounts(listed: Value, place: str, name: str) -> tuple[ProcessingMount, ...] | None:
    if listed.items is None:
        return () if listed.is_absent else None
    return tuple(
        ProcessingMount(item.at(place, "LocalPath"), item.at(place, "S3Uri"), item.at(name), item.span)
        for item in listed.items
    )
