"""`fit` of a model that was never compiled, or is compiled only afterwards: Keras raises an error before the first step.

The data has been downloaded and prepared by then. `fit` and `evaluate` need `compile` for the optimizer and the loss.

Bad:

    import keras

    model = keras.Sequential([keras.Input((8,)), keras.layers.Dense(1)])
    model.fit([], [], epochs=3)  # <-

Bad: too late

    import tensorflow as tf

    def main(x, y):
        model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
        model.fit(x, y, epochs=3)  # <-
        model.compile(optimizer="adam", loss="mse")

Good:

    import keras

    model = keras.Sequential([keras.Input((8,)), keras.layers.Dense(1)])
    model.compile(optimizer="adam", loss="mse")
    model.fit([], [], epochs=3)

Quiet: a function gets the model

    import keras
    from helpers import prepare

    model = keras.Sequential([keras.Input((8,)), keras.layers.Dense(1)])
    prepare(model)
    model.fit([], [], epochs=3)

Quiet: a model that was saved with its optimizer

    import keras

    model = keras.models.load_model("model.keras")
    model.fit([], [], epochs=3)
"""

import ast

from gpuproof.findings import Severity
from gpuproof.linter.analysis.call import Call, all_calls, calls_named, origin_call
from gpuproof.linter.analysis.module import Module
from gpuproof.linter.knowledge.frameworks.torch import is_test
from gpuproof.linter.project import Project
from gpuproof.linter.rule import Hits, Rule

rule = Rule("TF120", "model-not-compiled", Severity.ERROR, needs=("fit",))

_MODELS = frozenset(
    f"{package}{name}"
    for package in ("keras.", "tensorflow.keras.", "tf_keras.")
    for name in ("Sequential", "Model", "models.Sequential", "models.Model")
)
_HARMLESS = frozenset({"plot_model", "print", "len", "isinstance", "type", "count_params", "summary"})


@rule.module
def check(module: Module, _: Project) -> Hits:
    if not module.imports("tensorflow", "keras", "tf_keras") or is_test(module):
        return
    for call in calls_named(module, "fit"):
        name = call.receiver
        if not isinstance(name, ast.Name) or not _is_new_model(module, name):
            continue
        bindings = module.reaching(name)
        uses = [use for use in module.tree.uses_of(name.id) if module.reaching(use) == bindings]
        if any(_may_compile(module, use, call) for use in uses) or _is_shared(module, name):
            continue
        yield rule.hit(
            call.span,
            f"`{module.text(call.node.func)}` fails: `{name.id}` is not compiled at this point.",
            remedy=f'Call {name.id}.compile(optimizer="adam", loss=...) before.',
        )


def _is_new_model(module: Module, name: ast.Name) -> bool:
    made = origin_call(module, name)
    return made is not None and made.name in _MODELS


def _is_shared(module: Module, name: ast.Name) -> bool:
    """Whether other functions see the variable, too."""
    bindings = module.reaching(name)
    scope = bindings[0].scope
    return isinstance(scope, ast.Module) and any(
        module.function_of(use) is not None for use in module.tree.uses_of(name.id)
    )


def _may_compile(module: Module, use: ast.Name, fit: Call) -> bool:
    """Whether a use of a model may compile it before `fit`; another name, or an unknown function, may."""
    parent = module.parent(use)
    if isinstance(parent, ast.Attribute):
        if parent.attr != "compile":
            return parent.attr in ("_compile", "compiled", "from_config", "compile_from_config")
        later = use.lineno > fit.node.lineno
        return not later or bool(module.loops_around(fit.node))
    if isinstance(parent, (ast.Call, ast.keyword)):
        around = parent if isinstance(parent, ast.Call) else module.enclosing(use, ast.Call)
        call = next((each for each in all_calls(module) if each.node is around), None)
        return call is None or call.method not in _HARMLESS
    return True
