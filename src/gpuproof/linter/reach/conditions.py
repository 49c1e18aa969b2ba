"""Evaluates conditions: whether a test is certainly true or certainly false when a job runs the script."""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable
from typing import Any

from gpuproof.linter.analysis.evaluation.evaluate import evaluate
from gpuproof.linter.analysis.module import Module
from gpuproof.linter.analysis.syntax_index import callee_name
from gpuproof.linter.analysis.values import Entries, Value

_GPU_TESTS = frozenset(
    [
        "torch.cuda.is_available",
        "torch.accelerator.is_available",
        "torch.cuda.device_count",
        "torch.accelerator.device_count",
        "tensorflow.test.is_gpu_available",
        "tensorflow.config.list_physical_devices",
        "tensorflow.config.experimental.list_physical_devices",
        "tensorflow.config.list_logical_devices",
    ]
)
_FIRST_RANK = re.compile(
    r"is_(local_|world_|global_)?(main|master|primary|first|chief|zero)\w*|is_world_process_zero|master_process"
)
_RANK = re.compile(r"\b(\w*rank|get_rank\(\)|\w*rank\(\)|process_index)$")
_COMPARISONS: dict[type[ast.cmpop], Callable[[Any, Any], Any]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Is: operator.is_,
    ast.IsNot: operator.is_not,
}


def truth(module: Module, test: ast.expr, *, is_script: bool, has_gpu: bool | None) -> bool | None:
    """Whether a condition is true; None if it is unknown.

    Args:
        is_script: whether the module runs as `__main__`.
        has_gpu: whether the job has a GPU; None if it is unknown.
    """

    def of(node: ast.expr) -> bool | None:
        match node:
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                value = of(operand)
                return None if value is None else not value
            case ast.BoolOp(op=ast.And(), values=values):
                return _all([of(item) for item in values])
            case ast.BoolOp(values=values):
                found = _all([None if (one := of(each)) is None else not one for each in values])
                return None if found is None else not found
            case ast.Call() if module.qualified(node.func) in _GPU_TESTS:
                return None if _asks_for_cpu(node) else has_gpu
            case ast.Call(func=ast.Name(id="bool" | "len"), args=[operand]):
                return of(operand)
            case ast.Compare(left=left, ops=[op], comparators=[right]):
                return _compare(left, op, right)
            case _:
                return _truth_of(evaluate(module, node))

    def _compare(left: ast.expr, op: ast.cmpop, right: ast.expr) -> bool | None:
        if isinstance(left, ast.Name) and left.id == "__name__" and isinstance(right, ast.Constant):
            is_main = right.value == "__main__"
            return is_script if is_main and isinstance(op, ast.Eq) else None
        is_zero = isinstance(right, ast.Constant) and right.value == 0
        if isinstance(op, (ast.Gt, ast.NotEq)) and is_zero and _counts_gpus(module, left):
            return of(left)
        one, other, compare = evaluate(module, left), evaluate(module, right), _COMPARISONS.get(type(op))
        if compare is None or not one.is_known or not other.is_known:
            return None
        if isinstance(one.value, (Entries, tuple)) or isinstance(other.value, (Entries, tuple)):
            return None
        try:
            return bool(compare(one.value, other.value))
        except TypeError:
            return None

    return of(test)


def selects_first_rank(module: Module, test: ast.expr) -> bool:
    """Whether a condition is true in exactly one process of a distributed job: `rank == 0`, `is_main_process`."""
    match test:
        case ast.Compare(left=left, ops=[ast.Eq()], comparators=[ast.Constant(value=0)]):
            return _RANK.search(module.text(left).lower()) is not None
        case ast.Call(func=function):
            return selects_first_rank(module, function)
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return _FIRST_RANK.fullmatch(name) is not None
        case _:
            return False


def _all(values: list[bool | None]) -> bool | None:
    if False in values:
        return False
    return None if None in values else True


def _truth_of(value: Value) -> bool | None:
    if not value.is_known:
        return None
    if isinstance(value.value, Entries) and not value.value.complete:
        return True if value.value else None
    return bool(value.value)


def _counts_gpus(module: Module, node: ast.expr) -> bool:
    if isinstance(node, ast.Call) and callee_name(node) == "len" and node.args:
        return _counts_gpus(module, node.args[0])
    return isinstance(node, ast.Call) and module.qualified(node.func) in _GPU_TESTS


def _asks_for_cpu(node: ast.Call) -> bool:
    """Whether `list_physical_devices` lists something else than GPUs."""
    if not callee_name(node).startswith("list_"):
        return False
    kind = node.args[0] if node.args else None
    return not (isinstance(kind, ast.Constant) and kind.value == "GPU")
