"""Follows the settings of a program from the call that loads their file, or from Hydra, to the code that reads them."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Literal, NamedTuple

from gpuproof.linter.analysis.evaluation.evaluate import evaluate
from gpuproof.linter.analysis.evaluation.hydra_files import hydra_settings
from gpuproof.linter.analysis.flow.call_sites import call_sites
from gpuproof.linter.analysis.flow.call_targets import Definition
from gpuproof.linter.analysis.flow.sources import passed, sources
from gpuproof.linter.analysis.local_imports import program_modules
from gpuproof.linter.analysis.module import Module
from gpuproof.linter.analysis.scopes import Binding
from gpuproof.linter.analysis.syntax_index import FunctionNode, callee_name
from gpuproof.linter.analysis.values import UNKNOWN, Value

_PLAIN = ("yaml.", "json.", "tomllib.", "tomli.", "toml.", "ujson.", "orjson.", "simplejson.", "ruamel.")
_OBJECTS = (
    "omegaconf.OmegaConf.",
    "types.SimpleNamespace",
    "argparse.Namespace",
    "easydict.",
    "munch.",
    "ml_collections.",
)
"""What makes objects whose missing attributes raise an error; `addict` and `dotmap` create them."""
_CHANGES = frozenset(["setdefault", "merge_with", "setattr", "open_dict", "set_struct", "merge_from_list"])
_MAX_DEPTH = 6


class Settings(NamedTuple):
    """Settings, or a part of them.

    Attributes:
        kind: `dict` for plain mappings, `object` for what allows `settings.key`, `hydra` for what `@hydra.main` passes.
        path: the keys from the root to the part.
    """

    value: Value
    kind: Literal["dict", "object", "hydra"]
    path: tuple[str, ...] = ()

    def at(self, key: str | int) -> Settings | None:
        """A part; None if it does not certainly exist."""
        part = self.value.parts.get(key) if self.value.is_known else None
        return Settings(part, self.kind, (*self.path, str(key))) if part is not None else None


def settings_of(module: Module, node: ast.expr, depth: int = 0) -> Settings | None:
    """The settings that an expression certainly is, as their file has them; None for anything else."""
    if depth > _MAX_DEPTH:
        return None
    match node:
        case ast.Name():
            bindings = module.reaching(node)
            return _bound(module, bindings[0], depth) if len(bindings) == 1 else _global(module, node)
        case ast.Attribute(value=holder, attr=key):
            outer = settings_of(module, holder, depth + 1)
            if outer is not None:
                return outer.at(key) if outer.kind != "dict" else None
            is_own = isinstance(holder, ast.Name) and holder.id == "self"
            return _traced(module, node) if is_own else None
        case ast.Subscript(value=holder, slice=ast.Constant(value=str() | int() as key)):
            outer = settings_of(module, holder, depth + 1)
            return outer.at(key) if outer is not None else None
        case ast.Call():
            return _made(module, node)
        case _:
            return None


def changed_keys(module: Module) -> frozenset[str] | None:
    """The keys and attributes that some code of the program sets; None if some code may set any."""
    keys: set[str] = set()
    for other in program_modules(module):
        own = other.derived(_changed)
        if own is None:
            return None
        keys |= own
    return frozenset(keys)


def _bound(module: Module, binding: Binding, depth: int) -> Settings | None:
    if binding.kind == "assign" and binding.value is not None:
        return settings_of(module, binding.value, depth + 1)
    function = binding.scope
    if binding.kind != "parameter" or not isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef)):
        return None
    first = function.args.args[0] if function.args.args else None
    if binding.node is first and function.decorator_list:
        found = hydra_settings(module, function)
        return Settings(found, "hydra") if found is not None and found.entries is not None else None
    return _passed(module, function, binding, depth)


def _passed(module: Module, function: FunctionNode, binding: Binding, depth: int) -> Settings | None:
    """What every call of a function passes for a parameter."""
    sites = call_sites(module, function)
    found: Settings | None = None
    for site in sites or ():
        given = passed(site, Definition(module, function), binding.name)
        value = settings_of(given.module, given.node, depth + 1) if given is not None else None
        if value is None or (found is not None and value.value.value is not found.value.value):
            return None
        found = value
    return found


def _global(module: Module, node: ast.Name) -> Settings | None:
    """Settings that another module of the project loads."""
    return _traced(module, node) if node.id in module.names.imports else None


def _traced(module: Module, node: ast.expr) -> Settings | None:
    found = sources(module, node)
    source = found.found[0] if found.complete and len(found.found) == 1 else None
    if source is None or not isinstance(source.node, ast.Call):
        return None
    return _made(source.module, source.node)


def _made(module: Module, node: ast.Call) -> Settings | None:
    """The settings that a call loads or creates, directly or in a function of the project."""
    kind = _kind(module, node)
    if kind is None:
        traced = sources(module, node)
        source = traced.found[0] if traced.complete and len(traced.found) == 1 else None
        kind = _kind(source.module, source.node) if source is not None else None
    value = evaluate(module, node) if kind is not None else UNKNOWN
    return Settings(value, kind) if kind is not None and value.entries is not None else None


def _kind(module: Module, node: ast.expr) -> Literal["dict", "object"] | None:
    name = module.qualified(node.func) or "" if isinstance(node, ast.Call) else ""
    if name.startswith(_PLAIN):
        return "dict"
    return "object" if name.startswith(_OBJECTS) else None


def _changed(module: Module) -> frozenset[str] | None:
    return None if any(True for _ in _changers(module)) else frozenset(_stored(module))


def _changers(module: Module) -> Iterator[ast.Call]:
    for call in module.nodes(ast.Call):
        name = callee_name(call)
        if (
            name in _CHANGES
            or (name == "update" and (call.keywords or any(isinstance(item, ast.Dict) for item in call.args)))
            or (name in ("update", "merge") and "OmegaConf" in module.text(call.func))
        ):
            yield call


def _stored(module: Module) -> Iterator[str]:
    for node in module.nodes(ast.Attribute):
        if not isinstance(node.ctx, ast.Load):
            yield node.attr
    for node in module.nodes(ast.Subscript):
        if not isinstance(node.ctx, ast.Load) and isinstance(node.slice, ast.Constant):
            yield str(node.slice.value)
