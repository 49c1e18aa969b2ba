"""Reads the resources of a template in the language of its unit."""

from __future__ import annotations

from gpuproof.linter.source.span import Unit
from gpuproof.linter.templates.resource import Resource


def read_resources(unit: Unit) -> list[Resource]:
    """The resources of a template; empty for a text that is not a template."""
    if unit.kind == "terraform":
        from gpuproof.linter.templates import terraform

        return terraform.resources(unit)
    from gpuproof.linter.templates import cloudformation  # imports yaml, 20 ms

    return cloudformation.resources(unit)
