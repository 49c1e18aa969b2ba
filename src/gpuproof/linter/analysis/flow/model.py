"""What the analysis of data flow works with: sources of values, calls of functions, and the tracer that finds them."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from typing import NamedTuple, Protocol

from gpuproof.linter.analysis.flow.call_targets import Definition
from gpuproof.linter.analysis.module import Module
from gpuproof.linter.analysis.scopes import Binding

MAX_SOURCES = 16


class Source(NamedTuple):
    """An expression that makes a value: a call of a library or class, a constant, a literal, a name that is unknown."""

    module: Module
    node: ast.expr


class Sources(NamedTuple):
    """The sources of an expression.

    Attributes:
        complete: whether these are all sources.
    """

    found: tuple[Source, ...]
    complete: bool


class CallSite(NamedTuple):
    """A call of a function of the project.

    Attributes:
        bound: positional parameters that the call does not write, such as `self`.
    """

    module: Module
    call: ast.Call
    bound: int


class CallSites(NamedTuple):
    """The calls of a function.

    Attributes:
        complete: whether these are all calls: the function is not passed on, nor called through an unknown object.
    """

    found: tuple[CallSite, ...]
    complete: bool


class Tracer(Protocol):
    """Follows values back to their sources; `sources.py` implements it."""

    def trace(self, module: Module, node: ast.expr | None) -> Sources:
        """Where the value of an expression comes from."""
        ...

    def at(self, module: Module, value: ast.expr, key: int | str) -> Sources:
        """Where an item of a tuple or mapping comes from."""
        ...

    def binding(self, module: Module, binding: Binding) -> Sources:
        """Where the value of a binding comes from."""
        ...

    def returned(self, function: Definition) -> Sources | None:
        """What a function returns; None for generators, and functions that return nothing."""
        ...

    def class_of(self, module: Module, node: ast.expr) -> Definition | None:
        """The class of the project of which an expression is an instance; None if it is unknown."""
        ...


UNKNOWN_SOURCES = Sources((), complete=False)
NO_SOURCES = Sources((), complete=True)


def one_source(module: Module, node: ast.expr) -> Sources:
    """An expression that is its own source."""
    return Sources((Source(module, node),), complete=True)


def merged(parts: Iterable[Sources]) -> Sources:
    """The sources of several alternatives."""
    found: dict[ast.expr, Source] = {}
    complete = True
    for part in parts:
        complete = complete and part.complete
        for source in part.found:
            found.setdefault(source.node, source)
    if len(found) > MAX_SOURCES:
        return Sources(tuple(found.values())[:MAX_SOURCES], complete=False)
    return Sources(tuple(found.values()), complete)
