"""What a function does to the placement of what it gets: `def to_device(batch, device)` returns its batch, moved."""

from __future__ import annotations

import ast
from typing import NamedTuple

from gpuproof.linter.analysis.flow.call_targets import Definition, returned_values
from gpuproof.linter.analysis.known_types import MOVERS
from gpuproof.linter.analysis.module import Module

_MAX_DEPTH = 10


class Transfer(NamedTuple):
    """A function returns one of its parameters.

    Attributes:
        parameter: the name of the parameter.
        move: the call of `to` or `cuda` in it; None if it stays where it is.
    """

    parameter: str
    move: ast.Call | None


def transfer_of(function: Definition) -> Transfer | None:
    """What a function returns of what it gets; None if it returns anything else."""
    memo = function.module.derived(_Memo).found
    if function.node not in memo:
        memo[function.node] = _read(function)
    return memo[function.node]


def moved_items(node: ast.expr) -> tuple[ast.expr, ast.Call] | None:
    """The batch and the move of `[t.to(device) for t in batch]`, also of dictionaries and in `tuple(...)`."""
    match node:
        case ast.Call(func=ast.Name(id="tuple" | "list" | "dict"), args=[inner], keywords=[]):
            return moved_items(inner)
        case ast.ListComp(elt=made, generators=[loop]) | ast.GeneratorExp(elt=made, generators=[loop]):
            pass
        case ast.DictComp(value=made, generators=[loop]):
            pass
        case ast.Call(func=ast.Name(id="map"), args=[ast.Lambda(body=made), batch]):
            move = _move(made)
            return (batch, move) if move is not None else None
        case _:
            return None
    match loop.iter:
        case ast.Call(func=ast.Attribute(value=batch, attr="items" | "values")):
            pass
        case batch:
            pass
    move = _move(made)
    return (batch, move) if move is not None else None


def kept_items(node: ast.expr) -> ast.expr | None:
    """The batch of `[{k: v for k, v in t.items()} for t in targets]`, whose tensors stay where they are."""
    match node:
        case ast.Call(func=ast.Name(id="list" | "tuple"), args=[ast.Name() as batch], keywords=[]):
            return batch
        case ast.ListComp(
            elt=made, generators=[ast.comprehension(target=ast.Name(id=item), iter=batch, ifs=[])]
        ):
            pass
        case _:
            return None
    match made:
        case ast.DictComp(
            value=ast.Name(id=value),
            generators=[
                ast.comprehension(
                    target=ast.Tuple(elts=[_, ast.Name(id=entry)]),
                    iter=ast.Call(func=ast.Attribute(value=ast.Name(id=owner), attr="items")),
                )
            ],
        ):
            return batch if (value, owner) == (entry, item) else None
        case ast.Name(id=value):
            return batch if value == item else None
        case _:
            return None


def _move(node: ast.expr) -> ast.Call | None:
    """The move that an expression is, also of `t.to(device) if is_tensor(t) else t`."""
    if isinstance(node, ast.IfExp):
        return _move(node.body) or _move(node.orelse)
    match node:
        case ast.Call(func=ast.Attribute(attr=name)) if name in MOVERS:
            return node
        case _:
            return None


class _Memo:
    def __init__(self, _: Module) -> None:
        self.found: dict[ast.AST, Transfer | None] = {}


def _read(function: Definition) -> Transfer | None:
    values = [value for value in returned_values(function) if not _is_itself(function, value)]
    found = [_of_value(function, value, 0) for value in values]
    transfers = [transfer for transfer in found if transfer is not None]
    if not transfers or len(transfers) != len(found):
        return None
    if any(transfer.parameter != transfers[0].parameter for transfer in transfers):
        return None
    return next((transfer for transfer in transfers if transfer.move is not None), transfers[0])


def _is_itself(function: Definition, value: ast.expr) -> bool:
    """Whether a function calls itself for each item: `return [to_device(t) for t in batch]`."""
    assert not isinstance(function.node, ast.ClassDef)
    return any(
        isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == function.node.name
        for node in ast.walk(value)
    )


def _of_value(function: Definition, value: ast.expr, depth: int) -> Transfer | None:
    module, owner = function
    if depth > _MAX_DEPTH:
        return None
    items = moved_items(value)
    if items is not None:
        inner = _of_value(function, items[0], depth + 1)
        return Transfer(inner.parameter, items[1]) if inner is not None else None
    match value:
        case ast.Name():
            found: list[Transfer | None] = []
            for binding in module.reaching(value):
                if (
                    binding.kind == "parameter"
                    and binding.scope is owner
                    and binding.name not in ("self", "cls")
                ):
                    found.append(Transfer(binding.name, None))
                elif binding.kind == "assign" and binding.value is not None:
                    found.append(_of_value(function, binding.value, depth + 1))
                else:
                    return None
            first = found[0] if found else None
            if first is None or any(other is None or other.parameter != first.parameter for other in found):
                return None
            return next((other for other in found if other is not None and other.move is not None), first)
        case ast.Call(func=ast.Attribute(value=receiver, attr=name)) if name in MOVERS:
            inner = _of_value(function, receiver, depth + 1)
            return Transfer(inner.parameter, value) if inner is not None else None
        case ast.IfExp(body=body, orelse=orelse):
            first, second = _of_value(function, body, depth + 1), _of_value(function, orelse, depth + 1)
            if first is None or second is None or first.parameter != second.parameter:
                return None
            return first if first.move is not None else second
        case _:
            return None
