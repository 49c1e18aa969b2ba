"""The steps of a tf.data pipeline, as far back as they are seen."""

from __future__ import annotations

import ast
from typing import NamedTuple

from gpuproof.linter.analysis.call import Call, calls_named
from gpuproof.linter.analysis.flow.call_targets import find_definition
from gpuproof.linter.analysis.flow.creations import returned_values
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
    """The steps that build a dataset: through names with one binding, and functions of the project with one result."""
    steps: list[Call] = []
    for _ in range(60):
        if isinstance(node, ast.Name):
            bindings = module.reaching(node)
            if len(bindings) != 1 or bindings[0].kind != "assign":
                break
            node = bindings[0].value
            continue
        if not isinstance(node, ast.Call):
            break
        call = Call(node, module)
        if isinstance(node.func, ast.Attribute) and node.func.attr in _METHODS and call.name is None:
            steps.append(call)
            node = node.func.value
            continue
        found = find_definition(module, node.func)
        if found is not None and not isinstance(found.node, ast.ClassDef):
            returned = returned_values(found)
            if len(returned) != 1:
                break
            module, node = found.module, returned[0]
            continue
        if call.name is not None and call.name.startswith("tensorflow.data."):
            return Pipeline([call, *reversed(steps)], is_complete=True)
        break
    return Pipeline(list(reversed(steps)), is_complete=False)


def step_calls(module: Module, method: str) -> list[Call]:
    """The calls of one method of datasets, such as `shuffle`, in a module that uses `tf.data`."""
    return [call for call in calls_named(module, method) if call.receiver is not None and call.name is None]
