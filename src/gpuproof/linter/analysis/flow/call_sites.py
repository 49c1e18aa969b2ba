"""The calls of a function or method of the project, in the whole program."""

from __future__ import annotations

from gpuproof.linter.analysis.flow.model import CallSite
from gpuproof.linter.analysis.flow.sources import sites_of
from gpuproof.linter.analysis.module import Module
from gpuproof.linter.analysis.syntax_index import FunctionNode


def call_sites(module: Module, function: FunctionNode) -> list[CallSite] | None:
    """All calls of a function, method or constructor (`__init__`); None if something unknown may call it, too."""
    found = sites_of(module, function)
    return list(found.found) if found.complete else None


def known_call_sites(module: Module, function: FunctionNode) -> list[CallSite]:
    """The calls of a function that are found; there may be others."""
    return list(sites_of(module, function).found)
