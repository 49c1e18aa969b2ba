"""The values of attributes of objects: `self.model`, `trainer.model`, fields of dataclasses."""

from __future__ import annotations

import ast

from gpuproof.linter.analysis.flow.model import Source
from gpuproof.linter.analysis.flow.sources import attribute_sources
from gpuproof.linter.analysis.module import Module


def attribute_values(module: Module, node: ast.Attribute) -> list[Source] | None:
    """The expressions that make the values of an attribute; None if it may have others, or its object is unknown."""
    found = attribute_sources(module, node)
    is_itself = any(source.node is node for source in found.found)
    return list(found.found) if found.complete and not is_itself else None
