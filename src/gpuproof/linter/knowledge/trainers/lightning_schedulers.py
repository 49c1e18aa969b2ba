"""The schedulers that `configure_optimizers` of a LightningModule returns."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from typing import NamedTuple, TypeGuard

from gpuproof.linter.analysis.call import Call, origin_call
from gpuproof.linter.analysis.evaluation.evaluate import evaluate
from gpuproof.linter.analysis.flow.call_targets import Definition, returned_values
from gpuproof.linter.analysis.module import Module
from gpuproof.linter.analysis.syntax_index import FunctionNode


class ReturnedScheduler(NamedTuple):
    """A scheduler that a module returns.

    Attributes:
        created: the call that creates it.
        entry: what it is returned in: a mapping with its interval, or what the method returns.
        interval: how often Lightning steps it; None if it is unknown.
        given: the other entries that belong to it, by key: `monitor`, `interval`.
        is_open: whether there may be more of them.
    """

    created: Call
    entry: ast.expr
    interval: str | None
    given: Mapping[str, ast.expr]
    is_open: bool = False


def returned_schedulers(module: Module, method: FunctionNode) -> list[ReturnedScheduler]:
    """The schedulers in what `configure_optimizers` returns: lists, a pair of lists, or mappings."""
    return [
        scheduler
        for value in returned_values(Definition(module, method))
        for scheduler in _schedulers(module, value)
    ]


def _schedulers(module: Module, value: ast.expr) -> Iterator[ReturnedScheduler]:
    value = module.origin(value) or value
    match value:
        case ast.Tuple(elts=[_, ast.List(elts=entries)]):
            for entry in entries:
                yield from _entry(module, entry, value, {}, is_open=False)
        case ast.Tuple(elts=[_, ast.Name() as name]) if isinstance(listed := module.origin(name), ast.List):
            for entry in listed.elts:
                yield from _entry(module, entry, value, {}, is_open=False)
        case ast.Dict() | ast.Call():
            whole, is_open = _entries(value)
            if "lr_scheduler" in whole:
                shared = {key: item for key, item in whole.items() if key == "monitor"}
                yield from _entry(
                    module, whole["lr_scheduler"], whole["lr_scheduler"], shared, is_open=is_open
                )
        case _:
            return


def _entry(
    module: Module, entry: ast.expr, place: ast.expr, shared: Mapping[str, ast.expr], *, is_open: bool
) -> Iterator[ReturnedScheduler]:
    made = module.origin(entry) or entry
    if isinstance(made, ast.Dict) or _is_dict_call(made):
        own, has_rest = _entries(made)
        created = origin_call(module, own.get("scheduler"))
        if created is None:
            return
        interval = evaluate(module, own["interval"]) if "interval" in own else None
        stepped = "epoch" if interval is None else interval.text if interval.is_known else None
        yield ReturnedScheduler(
            created, made, None if has_rest else stepped, {**shared, **own}, is_open or has_rest
        )
        return
    created = origin_call(module, entry)
    if created is not None:
        yield ReturnedScheduler(created, place, "epoch", shared, is_open)


def _is_dict_call(node: ast.expr) -> TypeGuard[ast.Call]:
    """Whether an expression is `dict(scheduler=..., interval=...)`."""
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "dict"


def _entries(mapping: ast.Dict | ast.Call) -> tuple[dict[str, ast.expr], bool]:
    """The entries of a mapping by their keys, and whether it has others; none of another call than `dict(...)`."""
    if isinstance(mapping, ast.Call):
        if not _is_dict_call(mapping):
            return {}, True
        named = {keyword.arg: keyword.value for keyword in mapping.keywords if keyword.arg is not None}
        return named, bool(mapping.args) or len(named) < len(mapping.keywords)
    found: dict[str, ast.expr] = {}
    is_open = False
    for key, value in zip(mapping.keys, mapping.values, strict=True):
        if isinstance(key, ast.Constant) and isinstance(key.value, str):
            found[key.value] = value
        else:
            is_open = True
    return found, is_open
