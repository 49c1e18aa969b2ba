"""Hyperparameters that a job gets after it is created: from `set_hyperparameters(...)`, and from a tuner."""

from __future__ import annotations

import ast
from collections.abc import Callable
from dataclasses import replace

from gpuproof.linter.analysis.call import Call, calls_named, origin_call
from gpuproof.linter.analysis.evaluation.evaluate import evaluate
from gpuproof.linter.analysis.module import Module
from gpuproof.linter.analysis.values import Entries, Value, known


def added_hyperparameters(
    module: Module, created_by: Callable[[ast.expr | None], ast.Call | None]
) -> dict[ast.Call, Entries]:
    """The hyperparameters by the call that creates their estimator; incomplete if there may be others.

    The value of one that a tuner chooses is unknown.

    Args:
        created_by: the call that creates the estimator that an expression is.
    """
    found: dict[ast.Call, Entries] = {}
    if not module.mentions("set_hyperparameters", "HyperparameterTuner"):
        return found
    for call in calls_named(module, "set_hyperparameters"):
        node = created_by(call.receiver)
        if node is not None:
            entries = found.setdefault(node, Entries())
            entries.update(call.arguments())
            entries.complete = entries.complete and not call.is_open
    for call in calls_named(module, "HyperparameterTuner"):
        node = created_by(call.expression("estimator", 0) or call.expression("model_trainer"))
        if node is not None:
            _add_ranges(call, found.setdefault(node, Entries()))
    for call in calls_named(module, "create"):
        if (call.name or "").endswith("HyperparameterTuner.create"):
            _add_several(call, found, created_by)
    return found


def tuners(module: Module) -> list[tuple[Call, Call]]:
    """The tuners of a module, each with the call that creates its estimator."""
    pairs = [
        (call, origin_call(module, call.expression("estimator", 0)))
        for call in calls_named(module, "HyperparameterTuner")
    ]
    return [(call, estimator) for call, estimator in pairs if estimator is not None]


def with_hyperparameters(given: Value, added: Entries | None) -> Value:
    """The hyperparameters of a job with those that are added."""
    if added is None or not (given.is_unset or given.entries is not None):
        return given
    entries = Entries({**given.parts, **added})
    entries.complete = added.complete and (given.entries is None or given.entries.complete)
    if given.entries is not None:
        return replace(given, options=(entries,))
    return known(entries)


def _add_ranges(call: Call, entries: Entries) -> None:
    ranges = call.argument("hyperparameter_ranges", 2)
    if ranges.entries is None:
        entries.complete = False
        return
    for name, value in ranges.entries.items():
        entries[name] = Value("unknown", (), value.span)
    entries.complete = entries.complete and ranges.entries.complete


def _add_several(
    call: Call,
    found: dict[ast.Call, Entries],
    created_by: Callable[[ast.expr | None], ast.Call | None],
) -> None:
    """Add the ranges of a tuner for several estimators: `HyperparameterTuner.create(estimator_dict={...})`."""
    estimators = call.module.origin(call.expression("estimator_dict", 0))
    if not isinstance(estimators, ast.Dict):
        return
    ranges = call.argument("hyperparameter_ranges_dict", 2)
    for key, written in zip(estimators.keys, estimators.values, strict=True):
        node = created_by(written)
        if node is None:
            continue
        entries = found.setdefault(node, Entries())
        own = ranges.at(evaluate(call.module, key).value) if key is not None else ranges
        if own.entries is None:
            entries.complete = False
        entries.update({name: Value("unknown", (), value.span) for name, value in own.parts.items()})
