"""The steps of a tf.data pipeline, as far back as they are seen."""

from __future__ import annotations

import ast
from typing import NamedTuple

from gpuproof.linter.analysis.call import Call, call_of, calls_named
from gpuproof.linter.analysis.flow.sources import sources
from gpuproof.linter.analysis.known_types import DATASET_METHODS
from gpuproof.linter.analysis.module import Module

_METHODS = DATASET_METHODS | {
    "ragged_batch",
    "group_by_window",
    "snapshot",
    "scan",
    "take_while",
    "rebatch",
    "choose",
}


_MAX_STEPS = 80


class Pipeline(NamedTuple):
    """The calls that build a dataset.

    Attributes:
        steps: its calls from the source to the last one, as far as they are seen.
        is_complete: whether the first call is its source in `tf.data`, so that nothing precedes the steps.
    """

    steps: list[Call]
    is_complete: bool

    def last(self, *methods: str) -> int:
        """The index of the last call of one of these methods; -1 if there is none."""
        return max((index for index, step in enumerate(self.steps) if step.method in methods), default=-1)


def read_pipeline(module: Module, node: ast.expr | None) -> Pipeline:
    """The steps that build a dataset, if it has one origin; those that follow a branch otherwise."""
    found = pipelines(module, node)
    return found[0] if len(found) == 1 else Pipeline([], is_complete=False)


def pipelines(module: Module, node: ast.expr | None) -> list[Pipeline]:
    """The steps that may build a dataset, one pipeline for each origin: through the functions and objects of the program."""
    if node is None:
        return []
    finished: list[Pipeline] = []
    pending: list[tuple[Module, ast.expr, list[Call]]] = [(module, node, [])]
    count = 0
    while pending:
        home, value, steps = pending.pop()
        count += 1
        if count > _MAX_STEPS:
            return [Pipeline([], is_complete=False)]
        traced = sources(home, value)
        if not traced.complete or not traced.found:
            finished.append(Pipeline(list(reversed(steps)), is_complete=False))
        for made in traced.found:
            call = call_of(made.module, made.node)
            if call is None:
                finished.append(Pipeline(list(reversed(steps)), is_complete=False))
            elif call.name is None and call.method in _METHODS and call.receiver is not None:
                if call not in steps:
                    pending.append((made.module, call.receiver, [*steps, call]))
            elif call.name is not None and call.name.startswith("tensorflow.data."):
                finished.append(Pipeline([call, *reversed(steps)], is_complete=True))
            else:
                finished.append(Pipeline(list(reversed(steps)), is_complete=False))
    return finished


def step_calls(module: Module, method: str) -> list[Call]:
    """The calls of one method of datasets, such as `shuffle`, in a module that uses `tf.data`."""
    return [call for call in calls_named(module, method) if call.receiver is not None and call.name is None]
