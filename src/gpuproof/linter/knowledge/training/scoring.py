"""Runs of a model that train nothing: autograd is off, or every result certainly becomes a number."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from gpuproof.linter.analysis.call import Call, calls_named
from gpuproof.linter.analysis.flow.repeats import trains
from gpuproof.linter.analysis.local_imports import program_modules
from gpuproof.linter.analysis.module import Module
from gpuproof.linter.knowledge.frameworks.torch import imports_device_manager
from gpuproof.linter.knowledge.training.gradients import fate, gets_gradients, is_off, runs_of_models


def scoring_runs(module: Module) -> list[Call]:
    """Runs of a model, in loops or in functions of code that never trains, whose results are never differentiated."""
    return module.derived(_Scoring).found


class _Scoring:
    def __init__(self, module: Module) -> None:
        self.found = list(_find(module))


def _find(module: Module) -> Iterator[Call]:
    modules = program_modules(module)
    if any(map(imports_device_manager, modules)):
        return
    is_trained = any(calls_named(other, "backward", "grad") for other in modules)
    for run in runs_of_models(module):
        loops, function = module.loops_around(run.node), module.function_of(run.node)
        is_repeated = bool(loops) or module.enclosing(run.node, ast.ListComp, ast.GeneratorExp) is not None
        # One run in a notebook or at the top level of a script costs nothing.
        if not is_repeated and (is_trained or function is None):
            continue
        if isinstance(module.parent(run.node), ast.Expr) or (loops and trains(module, loops[0])):
            continue
        if _is_in_training_mode(module, run) or gets_gradients(module, function):
            continue
        if is_off(module, run.node) or fate(module, run.node) == "ends":
            yield run


def _is_in_training_mode(module: Module, run: Call) -> bool:
    """Whether the function has put the model into training mode: what runs then is part of training."""
    function, model = module.function_of(run.node), module.text(run.node.func)
    before = [
        call
        for call in calls_named(module, "train", "eval")
        if call.receiver is not None
        and module.function_of(call.node) is function
        and call.node.lineno <= run.node.lineno
        and module.text(call.receiver) == model
    ]
    return bool(before) and max(before, key=lambda call: call.node.lineno).method == "train"
