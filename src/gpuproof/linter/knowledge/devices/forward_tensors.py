"""Tensors that a model creates on the CPU and combines with its input or layers, while the model is on a GPU."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import NamedTuple

from gpuproof.linter.analysis.call import call_of, calls_named
from gpuproof.linter.analysis.evaluation.evaluate import evaluate
from gpuproof.linter.analysis.flow.call_targets import Definition, methods
from gpuproof.linter.analysis.flow.references import is_stored, references
from gpuproof.linter.analysis.flow.sources import SAME_OBJECT, sources
from gpuproof.linter.analysis.known_types import TENSOR_METHODS
from gpuproof.linter.analysis.module import Module
from gpuproof.linter.analysis.syntax_index import FunctionNode
from gpuproof.linter.analysis.types import TypeKind, type_of
from gpuproof.linter.analysis.types.libraries import is_module_class
from gpuproof.linter.analysis.types.placement import is_moved
from gpuproof.linter.knowledge.frameworks.torch import moves_to_gpu

_MADE = frozenset(
    ["arange", "linspace", "zeros", "ones", "full", "rand", "randn", "randint", "randperm", "eye", "empty"]
)
"""Functions that make tensors with dimensions; those without may be on the CPU."""
_OTHERS = ("tensor", "FloatTensor", "generate_square_subsequent_mask")
_REDUCTIONS = frozenset({"sum", "mean", "max", "min", "argmax", "squeeze"})
_MAX_DEPTH = 4


class CpuTensor(NamedTuple):
    """A use of a tensor on the CPU.

    Attributes:
        node: the tensor, where a layer gets it or it is combined with the input.
    """

    owner: ast.ClassDef
    node: ast.expr


def cpu_tensors(module: Module) -> Iterator[CpuTensor]:
    """The tensors that `forward` of the module's models creates on the CPU, of models that are certainly on a GPU."""
    if not calls_named(module, *_MADE, *_OTHERS):
        return
    for owner in module.nodes(ast.ClassDef):
        if not is_module_class(module, owner):
            continue
        forward = next((method for method in methods(owner) if method.name == "forward"), None)
        if forward is None:
            continue
        found = [node for node in _combined(module, forward) if _is_on_cpu(module, node)]
        if found and is_class_on_gpu(Definition(module, owner)):
            # One for `self.lstm(x, (h0, c0))`.
            first = {module.tree.statement(node): node for node in reversed(found)}
            yield from (CpuTensor(owner, node) for node in first.values())


def is_class_on_gpu(owner: Definition, depth: int = 0) -> bool:
    """Whether the program certainly moves an object of a class of models to a GPU, or one that it is part of."""
    for reference in references(owner):
        call = call_of(reference.module, reference.call) if reference.call is not None else None
        if call is None:
            continue
        if is_moved(reference.module, [call]) == "yes" or _is_moved_at_once(reference.module, call.node):
            return True
        outer = reference.module.enclosing(call.node, ast.ClassDef)
        is_part = outer is not None and depth < _MAX_DEPTH and is_module_class(reference.module, outer)
        if outer is not None and is_part and is_class_on_gpu(Definition(reference.module, outer), depth + 1):
            return True
    return False


def _is_moved_at_once(module: Module, node: ast.Call) -> bool:
    """Whether `Net().to(device)` moves what a call makes to a GPU."""
    while True:
        attribute = module.parent(node)
        outer = module.parent(attribute) if isinstance(attribute, ast.Attribute) else None
        if not isinstance(attribute, ast.Attribute) or not isinstance(outer, ast.Call):
            return False
        if attribute.attr not in SAME_OBJECT or outer.func is not attribute:
            return False
        call = call_of(module, outer)
        if call is not None and attribute.attr in ("to", "cuda") and moves_to_gpu(call):
            return True
        node = outer


def _combined(module: Module, forward: FunctionNode) -> Iterator[ast.expr]:
    """What layers get, and what is calculated with something that comes from the input."""
    for node in ast.walk(forward):
        match node:
            case ast.Call(func=ast.Attribute(value=ast.Name(id="self"), attr=name)) if is_stored(
                module, name
            ):
                for given in (*node.args, *(keyword.value for keyword in node.keywords)):
                    # The state of `self.lstm(x, (h0, c0))`.
                    yield from given.elts if isinstance(given, (ast.Tuple, ast.List)) else (given,)
            case ast.BinOp(left=left, right=right, op=ast.Add() | ast.Sub() | ast.Mult() | ast.Div()):
                if _is_of_input(module, forward, left):
                    yield right
                if _is_of_input(module, forward, right):
                    yield left
            case _:
                pass


def _is_of_input(module: Module, forward: FunctionNode, node: ast.expr, depth: int = 0) -> bool:
    """Whether a value certainly is calculated from a parameter by methods and layers."""
    if depth > _MAX_DEPTH:
        return False
    match node:
        case ast.Name(id=name) if name != "self":
            bindings = module.reaching(node)
            return bool(bindings) and all(
                (binding.kind == "parameter" and binding.scope is forward and binding.value is None)
                or (
                    # `output, _ = self.lstm(x)`
                    binding.kind in ("assign", "unpack")
                    and binding.value is not None
                    and _is_of_input(module, forward, binding.value, depth + 1)
                )
                for binding in bindings
            )
        case ast.Call(func=ast.Attribute(value=ast.Name(id="self")), args=[first, *_]):
            return _is_of_input(module, forward, first, depth + 1)
        case ast.Call(func=ast.Attribute(value=value, attr=method)) if method not in ("size", "dim", "numel"):
            return _is_of_input(module, forward, value, depth + 1)
        case ast.BinOp(left=left, right=right):
            return _is_of_input(module, forward, left, depth + 1) or _is_of_input(
                module, forward, right, depth + 1
            )
        case _:
            return False


def _is_on_cpu(module: Module, node: ast.expr) -> bool:
    """Whether a tensor with dimensions certainly was made on the CPU, and is still there."""
    if isinstance(node, ast.Subscript) and _is_range(node.slice):
        # `self.positions[:, : x.size(1)]`
        return _is_on_cpu(module, node.value)
    if not isinstance(node, (ast.Name, ast.Attribute, ast.Call)):
        return False
    found = type_of(module, node)
    if found.kind is not TypeKind.TENSOR or found.device != "cpu":
        return False
    return _is_made_with_dimensions(module, node)


def _is_made_with_dimensions(module: Module, node: ast.expr, depth: int = 0) -> bool:
    traced = sources(module, node)
    return (
        depth <= _MAX_DEPTH
        and traced.complete
        and bool(traced.found)
        and all(_has_dimensions(source.module, source.node, depth) for source in traced.found)
    )


def _is_range(index: ast.expr) -> bool:
    """Whether an index keeps a dimension."""
    items = index.elts if isinstance(index, ast.Tuple) else [index]
    return any(isinstance(item, ast.Slice) for item in items)


def _has_dimensions(module: Module, node: ast.expr, depth: int = 0) -> bool:
    call = call_of(module, node)
    if call is None:
        return False
    if call.name is None:
        # `torch.tensor(MEAN).view(1, 3, 1, 1)`
        return (
            call.method in TENSOR_METHODS - _REDUCTIONS
            and call.receiver is not None
            and _is_made_with_dimensions(module, call.receiver, depth + 1)
        )
    name = call.name.rpartition(".")[2]
    if name in ("tensor", "FloatTensor"):
        given = call.node.args[0] if call.node.args else None
        return given is not None and evaluate(module, given).items is not None
    return name in _MADE or name == "generate_square_subsequent_mask"
