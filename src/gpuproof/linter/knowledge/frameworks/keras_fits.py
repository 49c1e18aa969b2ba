"""How a Keras model is compiled for a call of `fit`, and the callbacks that the call gets."""

from __future__ import annotations

import ast
import re

from gpuproof.linter.analysis.call import Call, calls_named, origin_call
from gpuproof.linter.analysis.module import Module
from gpuproof.linter.analysis.types import TypeKind, type_of

KERAS = ("tensorflow", "keras", "tf_keras")


def fits(module: Module) -> list[Call]:
    """The calls of `fit` of Keras models."""
    if not module.imports(*KERAS):
        return []
    return [
        call
        for call in calls_named(module, "fit")
        if call.receiver is not None and type_of(module, call.receiver).kind is TypeKind.KERAS_MODEL
    ]


def compiles_of(module: Module, fit: Call) -> list[Call]:
    """The calls that may have compiled the model of a call of `fit`: on the same variable of the same function."""
    if fit.receiver is None:
        return []
    text, function = module.text(fit.receiver), module.function_of(fit.node)
    return [
        call
        for call in calls_named(module, "compile")
        if call.receiver is not None
        and module.text(call.receiver) == text
        and module.function_of(call.node) is function
    ]


def callbacks_of(fit: Call) -> list[Call]:
    """The calls that create the callbacks of a call of `fit`, as far as they are seen."""
    module = fit.module
    given = module.origin(fit.expression("callbacks"))
    items = given.elts if isinstance(given, (ast.List, ast.Tuple)) else []
    return [made for item in items if (made := origin_call(module, item)) is not None]


def is_of_keras(call: Call, *names: str) -> bool:
    """Whether a call creates one of these objects of Keras: `is_of_keras(call, "callbacks.EarlyStopping")`."""
    return call.name is not None and any(
        call.name == f"{package}.{name}"
        for name in names
        for package in ("keras", "tensorflow.keras", "tf_keras")
    )


def metric_names(module: Module, compiled: Call) -> frozenset[str] | None:
    """The names of the values that a model reports, without `val_`; None if one is unknown, or the model has several outputs."""
    loss, given = compiled.expression("loss", 1), module.origin(compiled.expression("metrics"))
    if compiled.is_open or loss is None or isinstance(module.origin(loss), (ast.Dict, ast.List, ast.Tuple)):
        return None
    if "weighted_metrics" in compiled.keywords or (given is None and len(compiled.node.args) > 2):
        return None
    names = {"loss", "lr", "learning_rate"}
    items = given.elts if isinstance(given, (ast.List, ast.Tuple)) else [] if given is None else None
    for item in items if items is not None else ():
        made = origin_call(module, item)
        if isinstance(item, ast.Constant) and isinstance(item.value, str):
            names.add(item.value)
        elif made is not None and ".metrics." in (made.name or ""):
            named = made.argument("name")
            if named.is_known and named.text:
                names.add(named.text)
            elif named.is_absent and made.method not in ("AUC", "Mean"):
                names.add(re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", made.method).lower())
            else:
                return None
        else:
            return None
    return frozenset(names) if items is not None else None
