"""Finds jobs in CloudFormation and Terraform templates, in state machines, and in JSON or YAML requests."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from gpuproof.linter.analysis.values import ABSENT, Value
from gpuproof.linter.jobs.definition import JobDefinition, Kind
from gpuproof.linter.jobs.readers import containers, pipeline_definition, state_machine
from gpuproof.linter.jobs.readers.boto3 import DOCUMENTS, request_jobs
from gpuproof.linter.source.span import Span, Unit
from gpuproof.linter.templates.read import read_resources
from gpuproof.linter.templates.resource import Resource

_CLOUDFORMATION = {
    "AWS::SageMaker::NotebookInstance": "create_notebook_instance",
    "AWS::SageMaker::EndpointConfig": "create_endpoint_config",
    "AWS::SageMaker::ProcessingJob": "create_processing_job",
}
"""Resource types whose properties are the members of a boto3 request."""

_MODELS = ("AWS::SageMaker::Model", "aws_sagemaker_model")


def jobs(unit: Unit) -> Iterator[JobDefinition]:
    """The jobs in the resources of a template, or in a request."""
    if unit.kind == "request":
        yield from _requests(unit)
        return
    yield from jobs_of(read_resources(unit))


def jobs_of(resources: list[Resource]) -> Iterator[JobDefinition]:
    """The jobs that some resources of one file describe."""
    image = _only_image(resources)
    for resource in resources:
        yield from state_machine.jobs_of_resource(resource)
        yield from pipeline_definition.jobs_of_resource(resource)
        yield from containers.jobs(resource)
        if resource.source == "terraform":
            found = _terraform(resource)
        elif operation := _CLOUDFORMATION.get(resource.type):
            requests = request_jobs(operation, resource.properties, resource.span)
            found = (replace(job, source="cloudformation", api=resource.type) for job in requests)
        else:
            continue
        for job in found:
            yield replace(job, image=image) if job.kind == "endpoint" else job


def _only_image(resources: list[Resource]) -> Value:
    """The container image of the template's only model; absent if there are several, which intrinsic functions select."""
    models = [resource for resource in resources if resource.type in _MODELS]
    if len(models) != 1:
        return ABSENT
    model = models[0]
    if model.source == "terraform":
        return model.properties.at("primary_container", 0, "image")
    return model.properties.at("PrimaryContainer", "Image")


def _requests(unit: Unit) -> Iterator[JobDefinition]:
    from gpuproof.linter.templates import cloudformation  # yaml: only where such a file is

    request = cloudformation.document(unit)
    if "Steps" in request.parts:
        yield from pipeline_definition.jobs(request, unit.span(1))
        return
    if "States" in request.parts:
        yield from state_machine.jobs(request, unit.span(1))
        return
    yield from containers.jobs_of_request(request, unit.span(1))
    for member, operation in DOCUMENTS.items():
        if member in request.parts:
            yield from request_jobs(operation, request, request.parts[member].span or unit.span(1))
            return


def _terraform(resource: Resource) -> Iterator[JobDefinition]:
    properties = resource.properties
    match resource.type:
        case "aws_sagemaker_notebook_instance":
            yield _job(resource, "notebook", properties, resource.span)
        case "aws_sagemaker_endpoint_configuration":
            for block in ("production_variants", "shadow_production_variants"):
                for variant in properties.at(block).items or ():
                    yield _job(resource, "endpoint", variant, variant.span or resource.span)
        case _:
            return


def _job(resource: Resource, kind: Kind, block: Value, span: Span) -> JobDefinition:
    members = {**resource.properties.parts, **block.parts}
    return JobDefinition(
        kind=kind,
        source="terraform",
        api=f"{resource.type}.{resource.name}",
        span=span,
        instance_type=block.at("instance_type"),
        instance_count=block.at("initial_instance_count"),
        arguments={str(key): value for key, value in members.items()},
    )
