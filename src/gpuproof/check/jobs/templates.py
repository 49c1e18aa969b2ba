"""CloudFormation and Terraform: their resources, and the jobs that some of them describe."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from gpuproof.check.analysis.values import Value
from gpuproof.check.jobs.boto3 import request_jobs
from gpuproof.check.jobs.definition import JobDefinition
from gpuproof.check.jobs.resource import Resource
from gpuproof.check.source.span import Span, Unit

if TYPE_CHECKING:
    from gpuproof.check.project import Project

_CLOUDFORMATION = {
    "AWS::SageMaker::NotebookInstance": "create_notebook_instance",
    "AWS::SageMaker::EndpointConfig": "create_endpoint_config",
}
"""Resource types that have the members of a request of boto3."""

_REQUESTS = {
    "TrainingJobName": "create_training_job",
    "ProcessingJobName": "create_processing_job",
    "EndpointConfigName": "create_endpoint_config",
    "TransformJobName": "create_transform_job",
    "NotebookInstanceName": "create_notebook_instance",
}
"""The member that tells what a request is for, and boto3's name of it."""


def resources(unit: Unit) -> list[Resource]:
    """The resources of a template; nothing from a text that is none."""
    if unit.kind == "terraform":
        from gpuproof.check.source import terraform

        return terraform.resources(unit)
    from gpuproof.check.source import cloudformation  # yaml: only where a template is

    return cloudformation.resources(unit)


def jobs(unit: Unit, project: Project) -> Iterator[JobDefinition]:
    """The jobs that a template's resources describe, or that a file is a request for."""
    if unit.kind == "request":
        yield from _requests(unit, project)
        return
    for resource in resources(unit):
        if resource.source == "terraform":
            yield from _terraform(resource, project)
        elif operation := _CLOUDFORMATION.get(resource.type):
            for job in request_jobs(operation, resource.properties, resource.span, project):
                yield replace(job, source="cloudformation", api=resource.type)


def _requests(unit: Unit, project: Project) -> Iterator[JobDefinition]:
    from gpuproof.check.source import cloudformation  # yaml: only where such a file is

    request = cloudformation.document(unit)
    for member, operation in _REQUESTS.items():
        if member in request.parts:
            yield from request_jobs(operation, request, request.parts[member].span or unit.span(1), project)
            return


def _terraform(resource: Resource, project: Project) -> Iterator[JobDefinition]:
    properties = resource.properties
    common = _Common(resource, project)
    match resource.type:
        case "aws_sagemaker_notebook_instance":
            yield common.job("notebook", properties, resource.span)
        case "aws_sagemaker_endpoint_configuration":
            for block in ("production_variants", "shadow_production_variants"):
                for variant in properties.at(block).items or ():
                    yield common.job("endpoint", variant, variant.span or resource.span)
        case _:
            return


class _Common:
    def __init__(self, resource: Resource, project: Project) -> None:
        self._resource = resource
        self._project = project

    def job(self, kind: str, block: Value, span: Span) -> JobDefinition:
        arguments = {
            str(key): value for key, value in {**self._resource.properties.parts, **block.parts}.items()
        }
        return JobDefinition(
            kind=kind,  # pyright: ignore[reportArgumentType]
            source="terraform",
            api=f"{self._resource.type}.{self._resource.name}",
            span=span,
            project=self._project,
            instance_type=block.at("instance_type"),
            instance_count=block.at("initial_instance_count"),
            arguments=arguments,
        )
