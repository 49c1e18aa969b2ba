"""Accelerate: the `Accelerator` of a script, and what passes through its `prepare()`."""

from __future__ import annotations

import ast
import re

from gpuproof.linter.analysis.call import Call, all_calls, calls_named, origin_call
from gpuproof.linter.analysis.flow.call_sites import call_sites
from gpuproof.linter.analysis.flow.call_targets import Definition
from gpuproof.linter.analysis.flow.creations import creations
from gpuproof.linter.analysis.flow.sources import passed
from gpuproof.linter.analysis.local_imports import local_modules
from gpuproof.linter.analysis.module import Module
from gpuproof.linter.analysis.scopes import Binding
from gpuproof.linter.analysis.usage import script_uses
from gpuproof.linter.source.test_files import is_test_file

_NAMED = re.compile(r"(^|\.|_)(accelerator|acc)$", re.IGNORECASE)
_CLASS = re.compile(r"^accelerate\.(\w+\.)*Accelerator$")
_SHARDS = re.compile(
    r"(^|\.)(ParallelismConfig|FullyShardedDataParallelPlugin|DeepSpeedPlugin|MegatronLMPlugin|TorchTensorParallelPlugin)$"
)
_PREPARES = (
    "prepare",
    "prepare_model",
    "prepare_optimizer",
    "prepare_data_loader",
    "prepare_scheduler",
)
_MAX_DEPTH = 6


def accelerators(script: Module) -> list[Call]:
    """The calls that create an `Accelerator`, in the script and the project's modules that it imports; tests have none."""
    if is_test_file(script.unit):
        return []
    return [
        call
        for module in local_modules(script)
        for call in calls_named(module, "Accelerator")
        if call.name is not None and _CLASS.match(call.name)
    ]


def is_accelerator(module: Module, node: ast.expr | None) -> bool:
    """Whether an expression certainly is an `Accelerator`, by what created it, or by its name."""
    if node is None:
        return False
    made = origin_call(module, node)
    if made is not None and made.name is not None:
        return _CLASS.match(made.name) is not None
    return isinstance(node, (ast.Name, ast.Attribute)) and _NAMED.search(module.text(node)) is not None


def prepare_calls(script: Module) -> list[Call]:
    """The calls of `accelerator.prepare(...)` and its parts."""
    return [
        call
        for module in local_modules(script)
        for call in calls_named(module, *_PREPARES)
        if is_accelerator(module, call.receiver)
    ]


def method_calls(script: Module, *names: str) -> list[Call]:
    """The calls of these methods of the script's accelerator."""
    return [
        call
        for module in local_modules(script)
        for call in calls_named(module, *names)
        if is_accelerator(module, call.receiver)
    ]


def prepared_objects(script: Module) -> frozenset[ast.Call] | None:
    """The calls that created what the script prepares; None if something of it is unknown."""
    found: set[ast.Call] = set()
    for call in prepare_calls(script):
        if call.node.keywords and any(keyword.arg is None for keyword in call.node.keywords):
            return None
        for argument in (*call.node.args, *call.keywords.values()):
            made = creations(call.module, argument) if not isinstance(argument, ast.Starred) else []
            if not made:
                return None
            found |= {each.node for each in made}
    return frozenset(found)


def is_from_prepare(module: Module, node: ast.expr | None, depth: int = 0) -> bool:
    """Whether an object certainly is what `prepare()` returned, and not what was given to it or unwrapped from it."""
    if depth > _MAX_DEPTH:
        return False
    match node:
        case ast.Name():
            bindings = module.reaching(node)
            if not bindings:
                return False
            for binding in bindings:
                if binding.kind == "parameter":
                    given = _passed(module, binding)
                    if not given or not all(is_from_prepare(home, value, depth + 1) for home, value in given):
                        return False
                elif binding.kind not in ("assign", "unpack") or not _is_prepare(
                    module, binding.value, depth
                ):
                    return False
            return True
        case ast.Attribute(value=ast.Name(id="self"), attr=name):
            owner = module.enclosing(node, ast.ClassDef)
            stores = [
                store
                for store in module.nodes(ast.Assign)
                if owner is not None
                and module.tree.is_within(store, owner)
                and any(_stores(target, name) for target in store.targets)
            ]
            return bool(stores) and _is_prepare(module, stores[-1].value, depth)
        case ast.Call():
            return _is_prepare(module, node, depth)
        case _:
            return False


def is_accelerated(module: Module, node: ast.AST) -> bool:
    """Whether the code around a node has an accelerator: its function or class, or the top level before it."""
    around = module.enclosing(node, ast.ClassDef) or module.function_of(node)
    line = getattr(node, "lineno", 0)
    return any(
        module.tree.is_within(use, around)
        if around is not None
        else use.lineno <= line and module.function_of(use) is None
        for use in module.nodes(ast.Name, ast.Attribute)
        if is_accelerator(module, use)
    )


def shards_models(script: Module) -> bool:
    """Whether the script gives its accelerator a plugin that spreads a model over processes."""
    return script_uses(script, _SHARDS, "call", "name")


def mixed_precision(script: Module) -> str | None:
    """The precision that the script certainly gives its accelerator: `fp16`, `bf16`, `no`."""
    found = {call.argument("mixed_precision", 2).text for call in accelerators(script)}
    return found.pop() if len(found) == 1 else None


def has_accelerator_only(script: Module) -> bool:
    """Whether the script trains with an `Accelerator` of its own, and no Trainer or other library prepares for it."""
    return bool(accelerators(script)) and not any(
        call.method.endswith("Trainer") for module in local_modules(script) for call in all_calls(module)
    )


def _passed(module: Module, parameter: Binding) -> list[tuple[Module, ast.expr]]:
    """What the calls of a function pass for a parameter; empty if one of them is unknown."""
    function = parameter.scope
    if not isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef)):
        return []
    found = [
        passed(site, Definition(module, function), parameter.name)
        for site in call_sites(module, function) or ()
    ]
    return [] if None in found else [(source.module, source.node) for source in found if source is not None]


def _is_prepare(module: Module, value: ast.expr | None, depth: int) -> bool:
    if isinstance(value, ast.Name):
        return is_from_prepare(module, value, depth + 1)
    call = origin_call(module, value)
    return call is not None and call.method in _PREPARES and is_accelerator(module, call.receiver)


def _stores(target: ast.expr, name: str) -> bool:
    match target:
        case ast.Tuple(elts=items) | ast.List(elts=items):
            return any(_stores(item, name) for item in items)
        case ast.Attribute(value=ast.Name(id="self"), attr=attribute):
            return attribute == name
        case _:
            return False
