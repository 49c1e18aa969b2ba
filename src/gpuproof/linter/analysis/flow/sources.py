"""Follows an expression back to where its value comes from, through the whole program.

Everything is followed in one place: names, parameters through the calls of their function, returned values, attributes of
objects, items of tuples and mappings, conditional expressions. The sources of an expression are computed once. The cost is
bounded by `MAX_STEPS` expressions for one question; what lies beyond is unknown.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable

from gpuproof.linter.analysis.flow.call_arguments import default_of, entry_of, last_name, written_argument
from gpuproof.linter.analysis.flow.call_targets import (
    Definition,
    find_definition,
    find_method,
    returned_values,
)
from gpuproof.linter.analysis.flow.items import item_at, item_of
from gpuproof.linter.analysis.flow.members import attribute_values_of
from gpuproof.linter.analysis.flow.model import (
    NO_SOURCES,
    UNKNOWN_SOURCES,
    CallSite,
    CallSites,
    Source,
    Sources,
    merged,
    one_source,
)
from gpuproof.linter.analysis.flow.sites import find_sites
from gpuproof.linter.analysis.module import Module
from gpuproof.linter.analysis.scopes import Binding
from gpuproof.linter.analysis.syntax_index import FunctionNode, callee_name

MAX_STEPS = 600
MAX_DEPTH = 40
SAME_OBJECT = frozenset(
    {"to", "cuda", "cpu", "train", "eval", "float", "half", "bfloat16", "double", "requires_grad_"}
)
"""Methods of modules that return the module itself."""
HANDLERS: dict[tuple[str, int], str] = {
    ("predict_fn", 0): "input_fn",
    ("predict_fn", 1): "model_fn",
    ("transform_fn", 0): "model_fn",
    ("output_fn", 0): "predict_fn",
}
"""The function of a handler whose result the serving toolkit passes for a parameter."""


def sources(module: Module, node: ast.expr | None) -> Sources:
    """Where the value of an expression comes from."""
    return _Query().trace(module, node)


def class_of(module: Module, node: ast.expr) -> Definition | None:
    """The class of the project of which an expression is an instance; None if it is unknown."""
    return _Query().class_of(module, node)


def targets(module: Module, function: ast.expr) -> list[Definition]:
    """The functions and classes of the project that a callee may be; empty if it is unknown."""
    return _Query().targets(module, function)


def sites_of(module: Module, function: FunctionNode) -> CallSites:
    """The calls of a function or method in the program."""
    return _Query().sites(module, function)


def attribute_sources(module: Module, node: ast.Attribute) -> Sources:
    """Where the value of an attribute of an object comes from."""
    return _Query().attribute(module, node)


def item_sources(module: Module, value: ast.expr, key: int | str) -> Sources:
    """Where the value of an item of a tuple or mapping comes from."""
    return _Query().at(module, value, key)


def passed(site: CallSite, function: Definition, name: str) -> Source | None:
    """What a call passes for a parameter, which may be its default; None if it is unknown."""
    return _Query().passed(site, function, name)


class _Memo:
    def __init__(self, _: Module) -> None:
        self.sources: dict[ast.expr, Sources] = {}
        self.classes: dict[ast.expr, Definition | None] = {}
        self.sites: dict[ast.AST, CallSites] = {}
        self.attributes: dict[tuple[ast.AST, str], Sources] = {}


class _Query:
    """One question, whose steps are counted."""

    def __init__(self) -> None:
        self._steps = 0
        self._cuts = 0
        self._open: set[object] = set()

    def trace(self, module: Module, node: ast.expr | None) -> Sources:
        if node is None:
            return UNKNOWN_SOURCES
        memo = module.derived(_Memo).sources
        if node in memo:
            return memo[node]
        entered = self._enter(node)
        if entered is not None:
            return entered
        cuts = self._cuts
        found = merged([self._expand(module, node)])
        self._open.discard(node)
        if cuts == self._cuts or not self._open:
            memo[node] = found
        return found

    def _enter(self, key: object) -> Sources | None:
        """Start to look at something; what it is already known to be if it cannot be looked at."""
        if key in self._open:
            self._cuts += 1
            return NO_SOURCES
        if self._steps > MAX_STEPS or len(self._open) > MAX_DEPTH:
            self._cuts += 1
            return UNKNOWN_SOURCES
        self._steps += 1
        self._open.add(key)
        return None

    def _expand(self, module: Module, node: ast.expr) -> Sources:
        match node:
            case ast.Name():
                return self._name(module, node)
            case ast.Attribute():
                return self.attribute(module, node)
            case ast.IfExp(body=body, orelse=orelse):
                return merged([self.trace(module, body), self.trace(module, orelse)])
            case ast.BoolOp(values=values, op=ast.Or()):
                return merged([self.trace(module, value) for value in values])
            case ast.NamedExpr(value=value) | ast.Await(value=value):
                return self.trace(module, value)
            case ast.Subscript(value=value, slice=key):
                return item_of(self, module, value, key, node)
            case ast.Call():
                return self._call(module, node)
            case _:
                return one_source(module, node)

    # Names

    def _name(self, module: Module, node: ast.Name) -> Sources:
        bindings = module.reaching(node)
        if bindings:
            return merged([self._bound(module, binding, node) for binding in bindings])
        found = find_definition(module, node)
        dotted = module.names.imports.get(node.id)
        if found is not None or not dotted:
            return one_source(module, node)
        return self._global(module, dotted) or one_source(module, node)

    def _global(self, module: Module, dotted: str) -> Sources | None:
        """The value of a variable of another module of the project."""
        holder, _, name = dotted.rpartition(".")
        other = module.loader.imported_module(module, holder) if holder else None
        if other is None or other is module:
            return None
        bindings = other.names.bindings(other.tree.root).get(name, [])
        if not bindings:
            return None
        return merged([self._bound(other, binding, None) for binding in bindings])

    def at(self, module: Module, value: ast.expr, key: int | str) -> Sources:
        return item_at(self, module, value, key)

    def binding(self, module: Module, binding: Binding) -> Sources:
        return self._bound(module, binding, None)

    def _bound(self, module: Module, binding: Binding, use: ast.Name | None) -> Sources:
        match binding.kind:
            case "assign":
                return self.trace(module, binding.value)
            case "unpack" if binding.index is not None and binding.value is not None:
                return self.at(module, binding.value, binding.index)
            case "loop" if isinstance(binding.value, (ast.Tuple, ast.List)) and binding.index is None:
                return merged([self.trace(module, item) for item in binding.value.elts])
            case "definition" if use is not None:
                return one_source(module, use)
            case "parameter":
                return self._parameter(module, binding)
            case _:
                return UNKNOWN_SOURCES

    def _parameter(self, module: Module, binding: Binding) -> Sources:
        function = binding.scope
        if not isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef)):
            return UNKNOWN_SOURCES
        own = function.args
        positional = [item.arg for item in (*own.posonlyargs, *own.args)]
        if binding.name not in (*positional, *(item.arg for item in own.kwonlyargs)):
            return UNKNOWN_SOURCES
        sites = self.sites(module, function)
        if not sites.found:
            served = self._served(module, function, binding.name, positional)
            if served is not None:
                return served
            default = self.trace(module, binding.value)
            return Sources(default.found, complete=False)
        parts = [
            self.trace(*given)
            if (given := self.passed(site, Definition(module, function), binding.name))
            else UNKNOWN_SOURCES
            for site in sites.found
        ]
        found = merged(parts)
        return found if sites.complete else Sources(found.found, complete=False)

    def _served(
        self, module: Module, function: FunctionNode, name: str, positional: list[str]
    ) -> Sources | None:
        if name not in positional or not isinstance(module.names.scope(function), ast.Module):
            return None
        maker = module.functions.get(HANDLERS.get((function.name, positional.index(name)), ""))
        return self.returned(Definition(module, maker)) if maker is not None else None

    def passed(self, site: CallSite, function: Definition, name: str) -> Source | None:
        own = function.node.args if not isinstance(function.node, ast.ClassDef) else None
        if own is None:
            return None
        positional = [item.arg for item in (*own.posonlyargs, *own.args)]
        place = positional.index(name) if name in positional else None
        written = written_argument(site, name, place)
        if written is not None:
            return Source(site.module, written)
        for keyword in site.call.keywords:
            if keyword.arg is None:
                given = self._entry(site.module, keyword.value, name)
                if given is not None or not self._is_mapping(site.module, keyword.value):
                    return given
        if any(isinstance(argument, ast.Starred) for argument in site.call.args):
            return None
        default = default_of(own, name)
        return Source(function.module, default) if default is not None else None

    def _is_mapping(self, module: Module, node: ast.expr) -> bool:
        found = self.trace(module, node)
        return found.complete and all(
            isinstance(source.node, ast.Dict) and None not in source.node.keys for source in found.found
        )

    def _entry(self, module: Module, node: ast.expr, key: str) -> Source | None:
        """The value that a known mapping has for a key."""
        found = self.trace(module, node)
        values = [entry_of(source, key) for source in found.found]
        return values[0] if len(values) == 1 else None

    # Calls

    def _call(self, module: Module, node: ast.Call) -> Sources:
        name = callee_name(node)
        if name in ("get", "pop") and isinstance(node.func, ast.Attribute) and node.args:
            key = node.args[0]
            if isinstance(key, ast.Constant) and isinstance(key.value, str):
                found = self.at(module, node.func.value, key.value)
                if found.found:
                    return found
        parts: list[Sources] = []
        for target in self.targets(module, node.func):
            returned = None if isinstance(target.node, ast.ClassDef) else self.returned(target)
            parts.append(one_source(module, node) if returned is None else returned)
        return merged(parts) if parts else one_source(module, node)

    def returned(self, function: Definition) -> Sources | None:
        """What a function returns; None for generators, and functions that return nothing or that run later."""
        module, node = function
        assert not isinstance(node, ast.ClassDef)
        values = returned_values(function)
        if not values or any(
            last_name(item) in ("contextmanager", "asynccontextmanager") for item in node.decorator_list
        ):
            return None
        if any(module.function_of(item) is node for item in module.nodes(ast.Yield, ast.YieldFrom)):
            return None
        return merged([self.trace(module, value) for value in values])

    def targets(self, module: Module, function: ast.expr) -> list[Definition]:
        found = find_definition(module, function)
        if found is not None:
            return [found]
        if isinstance(function, ast.Attribute):
            if module.qualified(function) is not None:
                return []
            owner = self.class_of(module, function.value)
            method = find_method(owner, function.attr) if owner is not None else None
            if method is not None:
                return [method]
            if owner is None:
                return []
        if isinstance(function, ast.Call) and callee_name(function) != "partial":
            return []
        if isinstance(function, ast.Name) and not module.reaching(function):
            return []
        definitions: list[Definition] = []
        traced = self.trace(module, function)
        for source in traced.found:
            node = source.node
            if isinstance(node, ast.Call) and callee_name(node) == "partial" and node.args:
                node = node.args[0]
            if not isinstance(node, (ast.Name, ast.Attribute)):
                continue
            target = find_definition(source.module, node)
            if target is not None and all(target.node is not other.node for other in definitions):
                definitions.append(target)
        return definitions

    # Objects

    def class_of(self, module: Module, node: ast.expr) -> Definition | None:
        if isinstance(node, ast.Name) and node.id in ("self", "cls"):
            owner = module.enclosing(node, ast.ClassDef)
            return Definition(module, owner) if owner is not None else None
        if isinstance(node, ast.Call) and callee_name(node) == "super":
            return None
        memo = module.derived(_Memo).classes
        if node in memo:
            return memo[node]
        key = ("class", node)
        if self._enter(key) is not None:
            return None
        cuts = self._cuts
        found: dict[ast.AST, Definition] = {}
        for source in self.trace(module, node).found:
            for owner in self._classes(source):
                found.setdefault(owner.node, owner)
        if not found and isinstance(node, ast.Name):
            found.update((owner.node, owner) for owner in _annotated(module, node))
        self._open.discard(key)
        owner = next(iter(found.values())) if len(found) == 1 else None
        if cuts == self._cuts or not self._open:
            memo[node] = owner
        return owner

    def _classes(self, source: Source) -> list[Definition]:
        """The classes of which a source may be an instance."""
        module, node = source
        made = _unwrapped(node)
        if made is not node:
            owner = self.class_of(module, made)
            return [owner] if owner is not None else []
        if not isinstance(made, ast.Call):
            return []
        return [target for target in self.targets(module, made.func) if isinstance(target.node, ast.ClassDef)]

    def attribute(self, module: Module, node: ast.Attribute) -> Sources:
        dotted = module.qualified(node)
        if dotted is not None:
            return self._global(module, dotted) or one_source(module, node)
        owner = self.class_of(module, node.value)
        if owner is None:
            if node.attr == "module":
                # `DistributedDataParallel(model).module`
                return self.trace(module, node.value)
            return one_source(module, node)
        memo = owner.module.derived(_Memo).attributes
        key = (owner.node, node.attr)
        if key in memo:
            return memo[key]
        entered = self._enter(key)
        if entered is not None:
            return entered
        cuts = self._cuts
        found = attribute_values_of(self, owner, node.attr)
        self._open.discard(key)
        if found is None:
            found = one_source(module, node)
        elif cuts == self._cuts or not self._open:
            memo[key] = found
        return found

    def sites(self, module: Module, function: FunctionNode) -> CallSites:
        memo = module.derived(_Memo).sites
        if function in memo:
            return memo[function]
        if self._enter(("sites", function)) is not None:
            return CallSites((), complete=False)
        cuts = self._cuts
        found = find_sites(self, Definition(module, function))
        self._open.discard(("sites", function))
        if cuts == self._cuts or not self._open:
            memo[function] = found
        return found


def _unwrapped(node: ast.expr) -> ast.expr:
    """`Net()` of `Net().to(device).eval()`."""
    while (
        isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in SAME_OBJECT
    ):
        node = node.func.value
    return node


def _annotated(module: Module, node: ast.Name) -> Iterable[Definition]:
    """The class of the project that annotates a parameter."""
    for binding in module.reaching(node):
        annotation = binding.node.annotation if isinstance(binding.node, ast.arg) else None
        if isinstance(annotation, (ast.Name, ast.Attribute)):
            found = find_definition(module, annotation)
            if found is not None and isinstance(found.node, ast.ClassDef):
                yield found
