"""The arguments of calls: what is written, what a mapping contains, and defaults."""

from __future__ import annotations

import ast

from gpuproof.linter.analysis.flow.model import CallSite, Source


def written_argument(site: CallSite, name: str, place: int | None) -> ast.expr | None:
    """The argument that a call writes for a parameter."""
    for keyword in site.call.keywords:
        if keyword.arg == name:
            return keyword.value
    index = place - site.bound if place is not None else -1
    arguments = site.call.args
    if not 0 <= index < len(arguments):
        return None
    if any(isinstance(argument, ast.Starred) for argument in arguments[: index + 1]):
        return None
    return arguments[index]


def default_of(own: ast.arguments, name: str) -> ast.expr | None:
    """The default of a parameter."""
    positional = [*own.posonlyargs, *own.args]
    pairs = [
        *zip(positional[len(positional) - len(own.defaults) :], own.defaults, strict=True),
        *zip(own.kwonlyargs, own.kw_defaults, strict=True),
    ]
    return next((value for argument, value in pairs if argument.arg == name), None)


def entry_of(source: Source, key: int | str) -> Source | None:
    """The entry of a mapping that is written out: `{"lr": 0.1}`, `dict(lr=0.1)`."""
    match source.node:
        case ast.Dict(keys=keys, values=values):
            for item, value in zip(keys, values, strict=True):
                if isinstance(item, ast.Constant) and item.value == key:
                    return Source(source.module, value)
        case ast.Call(keywords=keywords):
            for keyword in keywords:
                if keyword.arg == key:
                    return Source(source.module, keyword.value)
        case _:
            pass
    return None


def last_name(node: ast.expr) -> str:
    """The last name of an expression such as a decorator: `dataclass` of `@dataclasses.dataclass(frozen=True)`."""
    while isinstance(node, ast.Call):
        node = node.func
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""
