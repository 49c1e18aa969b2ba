"""Whether the result of a model is ever differentiated, and whether a value still carries the graph of a model."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Literal

from gpuproof.linter.analysis.call import Call, all_calls, calls_named
from gpuproof.linter.analysis.flow.call_sites import call_sites, known_call_sites
from gpuproof.linter.analysis.flow.call_targets import Definition, returned_values
from gpuproof.linter.analysis.flow.sources import targets
from gpuproof.linter.analysis.module import Module
from gpuproof.linter.analysis.syntax_index import FunctionNode, callee_name
from gpuproof.linter.analysis.types import TypeKind, type_of
from gpuproof.linter.knowledge.frameworks.torch import is_inside_with
from gpuproof.linter.knowledge.training.models import may_be_model, may_be_own_function

OFF = ("no_grad", "inference_mode", "set_grad_enabled")
_ENDS = frozenset(
    [
        "item",
        "tolist",
        "numpy",
        "detach",
        "detach_",
        "argmax",
        "argmin",
        "argsort",
        "size",
        "dim",
        "numel",
        "eq",
        "ne",
        "gt",
        "lt",
        "ge",
        "le",
        "round",
        "long",
        "int",
        "bool",
        "sign",
        "floor",
        "ceil",
    ]
)
"""Methods of a tensor through which no gradient flows."""
_ENDING_FUNCTIONS = frozenset(
    [
        "float",
        "int",
        "bool",
        "len",
        "print",
        "str",
        "isinstance",
        "argmax",
        "eq",
        "isnan",
        "isfinite",
        "update_metrics",
    ]
)
_CARRYING_FUNCTIONS = frozenset(
    ["sum", "max", "min", "abs", "list", "tuple", "zip", "enumerate", "sorted", "reversed"]
)
_MAX_PLACES = 60
_MAX_DEPTH = 6

Fate = Literal["ends", "differentiated", "unknown"]


def is_run(module: Module, call: Call) -> bool:
    """Whether a call runs a model of PyTorch that the program creates."""
    function = call.node.func
    if call.name is not None or not may_be_model(module, function):
        return False
    return bool(call.node.args or call.node.keywords) and type_of(module, function).kind is TypeKind.MODULE


def runs_of_models(module: Module) -> list[Call]:
    """The calls of a module that run a model, also through functions of the project that return what a model returns."""
    return module.derived(_Runs).found


class _Runs:
    def __init__(self, module: Module) -> None:
        self.found = [
            call for call in all_calls(module) if is_run(module, call) or returns_output(module, call.node)
        ]


def returns_output(module: Module, node: ast.Call, depth: int = 0) -> bool:
    """Whether a function of the project returns what a model returns, with its graph."""
    if depth > _MAX_DEPTH or not may_be_own_function(module, node.func):
        return False
    made = targets(module, node.func)
    return bool(made) and all(
        not isinstance(target.node, ast.ClassDef) and _function_returns_output(target, depth)
        for target in made
    )


def _function_returns_output(function: Definition, depth: int) -> bool:
    memo = function.module.derived(_Returns).found
    if function.node not in memo:
        memo[function.node] = False
        assert not isinstance(function.node, ast.ClassDef)
        values = returned_values(function)
        memo[function.node] = (
            bool(values)
            and not is_off(function.module, values[0])
            and all(carries_graph(function.module, value, depth + 1) for value in values)
        )
    return memo[function.node]


class _Returns:
    def __init__(self, _: Module) -> None:
        self.found: dict[ast.AST, bool] = {}


def carries_graph(module: Module, node: ast.expr, depth: int = 0) -> bool:
    """Whether a value certainly comes from a model with its graph: not detached, not a number, not without gradients."""
    if depth > _MAX_DEPTH:
        return False
    match node:
        case ast.Name():
            bindings = module.reaching(node)
            return bool(bindings) and all(
                binding.kind in ("assign", "unpack")
                and binding.value is not None
                and not isinstance(binding.value, ast.Tuple)
                and carries_graph(module, binding.value, depth + 1)
                for binding in bindings
            )
        case ast.BinOp(left=left, right=right):
            return carries_graph(module, left, depth + 1) or carries_graph(module, right, depth + 1)
        case ast.UnaryOp(operand=value) | ast.Subscript(value=value):
            return carries_graph(module, value, depth + 1)
        case ast.Attribute(value=value, attr=name):
            return name in ("loss", "logits", "last_hidden_state", "T") and carries_graph(
                module, value, depth + 1
            )
        case ast.Call():
            return _call_carries(module, node, depth)
        case _:
            return False


def _call_carries(module: Module, node: ast.Call, depth: int) -> bool:
    call = Call(node, module)
    if is_run(module, call):
        return not is_off(module, node)
    if call.name is not None:
        if not call.name.startswith(
            ("torch.nn.functional.", "torch.mean", "torch.sum", "torch.stack", "torch.cat")
        ):
            return False
        return any(carries_graph(module, argument, depth + 1) for argument in node.args)
    if returns_output(module, node, depth + 1):
        return True
    if call.receiver is None or call.method in _ENDS:
        return False
    return carries_graph(module, call.receiver, depth + 1)


def is_off(module: Module, node: ast.AST, depth: int = 0) -> bool:
    """Whether autograd is disabled around a node: by a `with`, a decorator, or by a caller of its function."""
    if is_inside_with(module, node, OFF):
        return True
    function = module.function_of(node)
    if function is None or depth > _MAX_DEPTH:
        return False
    if any(_names_off(decorator) for decorator in function.decorator_list):
        return True
    if any(module.function_of(call.node) is function for call in calls_named(module, "set_grad_enabled")):
        return True
    owner = module.enclosing(function, ast.ClassDef)
    if owner is not None and any(_names_off(decorator) for decorator in owner.decorator_list):
        return True
    return any(is_off(site.module, site.call, depth + 2) for site in known_call_sites(module, function))


def _names_off(node: ast.AST) -> bool:
    return any(
        (isinstance(part, ast.Attribute) and part.attr in OFF)
        or (isinstance(part, ast.Name) and part.id in OFF)
        for part in ast.walk(node)
    )


def fate(module: Module, node: ast.expr) -> Fate:
    """What becomes of a value: `ends` if every use of it ends in numbers or in what has no gradient."""
    pending: list[tuple[Module, ast.AST]] = [(module, node)]
    seen: set[ast.AST] = set()
    ended = False
    for home, value in pending:
        if value in seen:
            continue
        seen.add(value)
        if len(seen) > _MAX_PLACES:
            return "unknown"
        following = list(_next(home, value))
        if None in following:
            return "unknown"
        ended = ended or not following
        pending += [item for item in following if item is not None]
    return "ends" if ended else "unknown"


def _next(module: Module, value: ast.AST) -> Iterator[tuple[Module, ast.AST] | None]:
    """The expressions that get a value, nothing where it ends, None where it gets out of sight."""
    parent = module.parent(value)
    match parent:
        case ast.Compare() | ast.If() | ast.While() | ast.Assert() | ast.FormattedValue() | ast.Expr():
            return
        case ast.Attribute(attr=name):
            call = module.parent(parent)
            if isinstance(call, ast.Call) and call.func is parent:
                if name == "backward":
                    yield None
                elif name not in _ENDS:
                    yield module, call
            elif name not in ("shape", "device", "dtype", "ndim", "is_cuda", "indices", "data"):
                yield module, parent
        case ast.Call():
            yield from _into_call(module, parent)
        case ast.keyword():
            call = module.parent(parent)
            yield from _into_call(module, call) if isinstance(call, ast.Call) else iter((None,))
        case (
            ast.BinOp() | ast.UnaryOp() | ast.Subscript() | ast.IfExp() | ast.ListComp() | ast.GeneratorExp()
        ):
            yield module, parent
        case ast.Tuple() | ast.List() | ast.Starred():
            yield module, parent
        case ast.Assign(targets=[target]):
            yield from _into_target(module, target)
        case ast.AugAssign(target=ast.Name(id=name)):
            # Other augmented assignments, `total *= scale`, carry it on: every read of the name counts.
            function = module.function_of(parent)
            reads = [
                use
                for use in module.tree.uses_of(name)
                if isinstance(use, ast.Name)
                and isinstance(use.ctx, ast.Load)
                and module.function_of(use) is function
            ]
            yield from ((module, use) for use in reads) if reads else iter((None,))
        case ast.For(target=target, iter=iterated) if iterated is value:
            yield from _into_target(module, target)
        case ast.comprehension(target=target, iter=iterated) if iterated is value:
            yield from _into_target(module, target)
        case ast.Return():
            function = module.function_of(parent)
            # Objects that are called have callers that are not all found.
            is_seen = function is not None and function.name not in ("__call__", "forward")
            sites = call_sites(module, function) if function is not None and is_seen else None
            yield from ((site.module, site.call) for site in sites) if sites else iter((None,))
        case _:
            yield None


def _into_call(module: Module, call: ast.Call) -> Iterator[tuple[Module, ast.AST] | None]:
    name = callee_name(call)
    qualified = module.qualified(call.func) or ""
    if isinstance(call.func, ast.Name) and name in _ENDING_FUNCTIONS and not module.binds(name):
        return
    if qualified.startswith("torch."):
        if name in _ENDS or name in _ENDING_FUNCTIONS:
            return
        is_kept = qualified.startswith(("torch.autograd", "torch.save", "torch.func.", "torch.testing"))
        yield None if is_kept else (module, call)
        return
    if isinstance(call.func, ast.Name) and name in _CARRYING_FUNCTIONS and not module.binds(name):
        yield module, call
        return
    # A loss or another model.
    yield (module, call) if type_of(module, call.func).kind is TypeKind.MODULE else None


def _into_target(module: Module, target: ast.AST) -> Iterator[tuple[Module, ast.AST] | None]:
    match target:
        case ast.Name(id=name):
            used = list(_uses(module, target))
            # A result that nothing uses says nothing.
            yield from used if used or name.startswith("_") else [None]
        case ast.Tuple(elts=items) | ast.List(elts=items):
            for item in items:
                yield from _into_target(module, item)
        case _:
            yield None


def _uses(module: Module, target: ast.Name) -> Iterator[tuple[Module, ast.AST] | None]:
    for use in module.tree.uses_of(target.id):
        if any(binding.node is target for binding in module.reaching(use)):
            yield module, use


def gets_gradients(module: Module, function: FunctionNode | None) -> bool:
    """Whether code of a function reads or asks for gradients."""
    return any(
        (
            isinstance(node, ast.Attribute)
            and node.attr in ("grad", "requires_grad", "requires_grad_", "register_hook")
        )
        or (isinstance(node, ast.keyword) and node.arg in ("requires_grad", "create_graph"))
        for node in ast.walk(function or module.tree.root)
    )
