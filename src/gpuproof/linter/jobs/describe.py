"""Finds the jobs that a text describes, in whatever format: SDK calls, requests, templates, commands, manifests."""

from __future__ import annotations

from collections.abc import Iterator

from gpuproof.linter.analysis.workspace import Workspace
from gpuproof.linter.jobs.definition import JobDefinition
from gpuproof.linter.jobs.readers import boto3, containers, remote_function, sdk_v2, sdk_v3
from gpuproof.linter.jobs.resources import EC2_OPERATIONS, find_resources
from gpuproof.linter.source.span import Unit

_WORDS = ("sagemaker", *boto3.OPERATIONS, *containers.OPERATIONS, *EC2_OPERATIONS, "aws_cdk")
"""A Python text without any of these words does not describe a job."""


def described_jobs(unit: Unit, workspace: Workspace) -> Iterator[JobDefinition]:
    """The jobs that a text describes, in its order."""
    match unit.kind:
        case "python" | "notebook" | "cell-file" | "markdown":
            if any(word in unit.source for word in _WORDS):
                yield from _of_python(unit, workspace)
        case "gpuproof":
            from gpuproof.linter.jobs.readers import gpuproof_yaml

            yield from gpuproof_yaml.jobs(unit)
        case "cloudformation" | "terraform" | "request":
            from gpuproof.linter.jobs.readers import templates

            yield from templates.jobs(unit)
        case "compose":
            from gpuproof.linter.jobs.readers import docker

            yield from docker.jobs_of_compose(unit)
        case "kubernetes":
            from gpuproof.linter.jobs.readers import kubernetes

            yield from kubernetes.jobs(unit)
        case "shell" | "makefile" | "dockerfile":
            from gpuproof.linter.jobs.readers import command_files

            yield from command_files.jobs(unit)
            yield from command_files.requests(unit)
            yield from _of_resources(unit, workspace)
        case "typescript":
            from gpuproof.linter.jobs.cdk import jobs, typescript

            yield from _of_resources(unit, workspace)
            yield from jobs.jobs_of(typescript.constructs(unit))
        case _:
            return


def _of_python(unit: Unit, workspace: Workspace) -> Iterator[JobDefinition]:
    module = workspace.module(unit)
    if module is None:
        return
    if module.imports("sagemaker"):
        yield from sdk_v2.jobs(module)
        yield from sdk_v3.jobs(module)
        yield from remote_function.jobs(module)
    yield from boto3.jobs(module)
    yield from containers.jobs_of_module(module)
    yield from _of_resources(unit, workspace)
    if module.imports("aws_cdk"):
        from gpuproof.linter.jobs.cdk import jobs, python

        yield from jobs.jobs_of(python.constructs(module))


def _of_resources(unit: Unit, workspace: Workspace) -> Iterator[JobDefinition]:
    """The jobs of the resources that a program or a shell script creates."""
    resources = find_resources(unit, workspace)
    if resources:
        from gpuproof.linter.jobs.readers import templates

        yield from templates.jobs_of(resources)
