"""Conditions that certainly select the first rank, or all others: `rank == 0`, `not is_main_process`, `if rank != 0: return`."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import Literal

from gpuproof.linter.analysis.module import Module
from gpuproof.linter.analysis.syntax_index import callee_name

Side = Literal["first", "others"]
"""The ranks on which a node runs: rank 0 only, or every rank but 0."""

_OTHER: dict[Side, Side] = {"first": "others", "others": "first"}
_RANK = re.compile(
    r"^_?(global_|local_|node_|world_|dist_|my_|process_|ddp_|hvd_|mpi_)?(rank|process_index|local_process_index)$",
    re.IGNORECASE,
)
_RANK_CALLS = frozenset(
    {"get_rank", "rank", "local_rank", "get_local_rank", "get_global_rank", "Get_rank", "get_ordinal"}
)
_RANK_VARIABLES = frozenset(
    {
        "RANK",
        "LOCAL_RANK",
        "SLURM_PROCID",
        "SLURM_LOCALID",
        "OMPI_COMM_WORLD_RANK",
        "OMPI_COMM_WORLD_LOCAL_RANK",
    }
)
_REPEATED = ("loop", "other")
_FIRST = re.compile(
    r"^_?((is|on)_(local_)?(main|master|global_zero|rank_?zero|rank_?0|first)(_process|_rank|_worker|_node)?"
    r"|(local_)?(main|master|first)(_process|_rank)|rank_?zero|rank_?0|global_zero)$",
    re.IGNORECASE,
)


def side_of(module: Module, node: ast.AST) -> Side | None:
    """On which ranks a node certainly runs, by the conditions around it in its function; None if that is unknown or all."""
    return next((side for side, _ in sides_around(module, node)), None)


def sides_around(module: Module, node: ast.AST) -> Iterator[tuple[Side, ast.expr]]:
    """The ranks that conditions around a node select, the innermost first, each with its test."""
    inside = node
    for ancestor in module.tree.ancestors(node):
        block: list[ast.stmt] = []
        match ancestor:
            case ast.If(test=test, body=body):
                if inside is not test:
                    yield from _side(module, test, holds=inside in body)
                block = body if inside in body else ancestor.orelse
            case ast.IfExp(test=test, body=body):
                if inside is not test:
                    yield from _side(module, test, holds=inside is body)
            case ast.BoolOp(op=ast.And(), values=values) if inside in values:
                for value in values[: values.index(inside)]:  # pyright: ignore[reportArgumentType]
                    yield from _side(module, value, holds=True)
            case ast.FunctionDef(body=body) | ast.AsyncFunctionDef(body=body) | ast.Module(body=body):
                block = body
            case ast.For() | ast.While() | ast.With() | ast.AsyncFor() | ast.AsyncWith():
                block = ancestor.body
            case _:
                pass
        if inside in block:
            yield from _left_before(module, block[: block.index(inside)])  # pyright: ignore[reportArgumentType]
        if isinstance(ancestor, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
            return
        inside = ancestor


def side_of_test(module: Module, test: ast.expr, depth: int = 0) -> Side | None:
    """The ranks for which a condition holds: `first` if certainly at most for rank 0."""
    if depth > 4:
        return None
    match test:
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            if is_rank(module, operand):
                return "first"
            side = None if isinstance(operand, ast.BoolOp) else side_of_test(module, operand, depth + 1)
            return _OTHER[side] if side is not None else None
        case ast.BoolOp(op=ast.And(), values=values):
            found: list[Side | None] = [side_of_test(module, value, depth + 1) for value in values]
            return next((side for side in found if side is not None), None)
        case ast.BoolOp(values=values):
            sides: set[Side | None] = {side_of_test(module, value, depth + 1) for value in values}
            return sides.pop() if len(sides) == 1 else None
        case ast.Compare(left=left, ops=[operator], comparators=[right]):
            return _of_comparison(module, left, operator, right)
        case ast.Call(args=[]):
            return "first" if _FIRST.match(callee_name(test)) else None
        case ast.Attribute(attr=name):
            return "first" if _FIRST.match(name) else None
        case ast.Name(id=name):
            made = module.origin(test)
            if made is not None and made is not test:
                return side_of_test(module, made, depth + 1)
            return "first" if _FIRST.match(name) else None
        case _:
            return None


def is_rank(module: Module, node: ast.expr, depth: int = 0) -> bool:
    """Whether an expression certainly is the rank of the process: `dist.get_rank()`, `args.local_rank`, `int(os.environ["RANK"])`."""
    match node:
        case ast.Call(func=ast.Name(id="int"), args=[inner]):
            return is_rank(module, inner, depth)
        case ast.Call():
            if callee_name(node) in _RANK_CALLS:
                return True
            return callee_name(node) in ("get", "getenv") and _is_variable(node.args[:1])
        case ast.Subscript(value=value, slice=key):
            return module.qualified(value) == "os.environ" and _is_variable([key])
        case ast.Attribute(attr=name):
            return _RANK.match(name) is not None
        case ast.Name(id=name):
            if _RANK.match(name):
                return not any(binding.kind in _REPEATED for binding in module.reaching(node))
            made = module.origin(node)
            return made is not None and made is not node and depth < 4 and is_rank(module, made, depth + 1)
        case _:
            return False


def _side(module: Module, test: ast.expr, *, holds: bool) -> Iterator[tuple[Side, ast.expr]]:
    side = side_of_test(module, test)
    if side is None:
        return
    if holds:
        yield side, test
    elif not isinstance(test, ast.BoolOp):
        yield _OTHER[side], test


def _left_before(module: Module, statements: list[ast.stmt]) -> Iterator[tuple[Side, ast.expr]]:
    """The ranks that remain after `if rank != 0: return`."""
    for statement in statements:
        if (
            isinstance(statement, ast.If)
            and not statement.orelse
            and isinstance(statement.body[-1], (ast.Return, ast.Continue))
        ):
            yield from _side(module, statement.test, holds=False)


def _of_comparison(module: Module, left: ast.expr, operator: ast.cmpop, right: ast.expr) -> Side | None:
    if not is_rank(module, left):
        return None
    match operator, right:
        case ((ast.Eq() | ast.Is() | ast.LtE()), ast.Constant(value=0)):
            return "first"
        case ast.Lt(), ast.Constant(value=1):
            return "first"
        case ((ast.NotEq() | ast.Gt() | ast.IsNot()), ast.Constant(value=0)):
            return "others"
        case ((ast.In() | ast.NotIn()), (ast.List(elts=items) | ast.Tuple(elts=items) | ast.Set(elts=items))):
            texts = {ast.unparse(item) for item in items}
            if not texts or not texts <= {"-1", "0"} or "0" not in texts:
                return None
            return "first" if isinstance(operator, ast.In) else "others"
        case _:
            return None


def _is_variable(nodes: list[ast.expr]) -> bool:
    return any(isinstance(node, ast.Constant) and node.value in _RANK_VARIABLES for node in nodes)
