"""Reads the resources of a template in the language of its unit."""

from __future__ import annotations

from gpuproof.check.source.span import Unit
from gpuproof.check.templates.resource import Resource


def read_resources(unit: Unit) -> list[Resource]:
    """The resources of a template; empty for a text that is not a template."""
    if unit.kind == "terraform":
        from gpuproof.check.templates import terraform

        return terraform.resources(unit)
    from gpuproof.check.templates import cloudformation  # imports yaml, 20 ms

    return cloudformation.resources(unit)
