"""Regions and EC2 instance types of jobs and resources, and edits of the texts that name instance types and images."""

from __future__ import annotations

import ast
from contextlib import suppress
from pathlib import Path

from gpuproof.linter.analysis.call import Call, origin_call
from gpuproof.linter.analysis.module import Module
from gpuproof.linter.analysis.values import Value
from gpuproof.linter.jobs.definition import JobDefinition
from gpuproof.linter.project import Project
from gpuproof.linter.source.decode import Unreadable, decode, read_bytes
from gpuproof.linter.source.edit import Edit
from gpuproof.linter.source.span import Span
from gpuproof.linter.templates.resource import Resource


def region_of(job: JobDefinition, project: Project) -> str | None:
    """The region of a job, from its client or session, or else from the target; None if it is unknown."""
    if job.call is None:
        written = job.argument("cli-region").text or _provider_region(job, project)
        if written is not None:
            return written
        own = job.argument("resources").at("region")
        return project.target.region or (own.text if own.is_known else None)
    session = job.call.expression("sagemaker_session")
    made = _region(job.call.module, job.call.receiver if job.source == "boto3" else session, 0)
    return made or project.target.region


def _provider_region(job: JobDefinition, project: Project) -> str | None:
    """The region of the only provider of AWS in the folder of a Terraform file; None if it is a variable."""
    if job.source != "terraform":
        return None
    unit = job.span.unit
    return project.workspace.cached("region of the provider", unit, lambda: _region_in(unit.absolute.parent))


def _region_in(folder: Path) -> str | None:
    from gpuproof.linter.templates import terraform  # only where such a file is

    found: list[str | None] = []
    for path in sorted(folder.glob("*.tf")):
        with suppress(Unreadable):
            text = decode(read_bytes(path))[0]
            found += terraform.provider_regions(text) if "provider" in text else ()
    return found[0] if len(found) == 1 else None


def _region(module: Module, node: ast.expr | None, depth: int) -> str | None:
    call: Call | None = origin_call(module, node) if node is not None and depth < 4 else None
    if call is None:
        return None
    written = call.argument("region_name", 1 if call.method == "client" else None)
    if written.is_known:
        return written.text
    if not written.is_absent:
        return None
    inner = call.expression("boto_session", 0) if call.method == "Session" else call.receiver
    return _region(module, inner, depth + 1)


def ec2_type(resource: Resource) -> Value | None:
    """The instance type of an EC2 instance in a template; None for other resources."""
    key = {"aws_instance": "instance_type", "AWS::EC2::Instance": "InstanceType"}.get(resource.type)
    return resource.get(key) if key is not None else None


def replace_text(value: Value, old: str, new: str) -> tuple[Edit, ...]:
    """Replace a text at the position of a value; empty unless the text occurs there exactly once."""
    span = value.span
    if span is None or span.line != span.end_line:
        return ()
    line = span.text
    end = span.end_column - 1 if span.end_column - 1 > span.column else len(line)
    piece = line[span.column - 1 : end]
    if piece.count(old) != 1:
        return ()
    begin = span.column + piece.index(old)
    return (Edit(Span(span.unit, span.line, begin, span.line, begin + len(old)), new),)
