"""Finds the jobs that the steps of a SageMaker pipeline start, where its definition is JSON in a template or in a file."""

from __future__ import annotations

from collections.abc import Iterator

from gpuproof.linter.analysis.values import Value
from gpuproof.linter.jobs.definition import JobDefinition
from gpuproof.linter.jobs.readers import containers
from gpuproof.linter.jobs.readers.boto3 import request_jobs
from gpuproof.linter.source.span import Span
from gpuproof.linter.templates.resource import Resource

_STEPS = {
    "Training": "create_training_job",
    "Processing": "create_processing_job",
    "Transform": "create_transform_job",
}
_PIPELINES = {
    "aws_sagemaker_pipeline": ("pipeline_definition",),
    "AWS::SageMaker::Pipeline": ("PipelineDefinition", "PipelineDefinitionBody"),
}
_MAX_DEPTH = 8


def jobs_of_resource(resource: Resource) -> Iterator[JobDefinition]:
    """The jobs of the pipeline of a resource; none if its definition is in S3."""
    path = _PIPELINES.get(resource.type)
    if path is None:
        return
    definition = resource.get(path[0])
    if definition.entries is not None and len(path) > 1:
        definition = definition.at(path[1])
    yield from jobs(containers.read_text(resource, definition), resource.span)


def jobs(definition: Value, span: Span) -> Iterator[JobDefinition]:
    """The jobs of the steps of a definition.

    Source: https://aws-sagemaker-mlops.github.io/sagemaker-model-building-pipeline-definition-JSON-schema/, 2026-11-29.
    """
    for step in definition.at("Steps").items or ():
        yield from _of_step(step, span, 0)


def _of_step(step: Value, span: Span, depth: int) -> Iterator[JobDefinition]:
    arguments = step.at("Arguments")
    operation = _STEPS.get(step.at("Type").text or "")
    if operation is not None and arguments.entries is not None:
        yield from request_jobs(operation, arguments, arguments.span or step.span or span)
    elif depth < _MAX_DEPTH:
        for branch in ("IfSteps", "ElseSteps"):
            for inner in arguments.at(branch).items or ():
                yield from _of_step(inner, span, depth + 1)
