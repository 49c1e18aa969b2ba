"""`layer.trainable` is changed between two calls of `fit`, and the model is not compiled again: the second `fit` ignores it.

Keras builds its training step once. Layers that are unfrozen for fine-tuning stay frozen, and layers that are frozen keep training,
until `compile` builds the step again (seen with Keras 3.15). Fine-tuning then costs its full time and changes nothing.

Bad:

    import keras

    base = keras.applications.ResNet50(include_top=False, pooling="avg")
    base.trainable = False
    model = keras.Sequential([base, keras.layers.Dense(10)])
    model.compile(optimizer="adam", loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    model.fit([], [], epochs=3)
    base.trainable = True  # <-
    model.fit([], [], epochs=10)

Good:

    import keras

    base = keras.applications.ResNet50(include_top=False, pooling="avg")
    base.trainable = False
    model = keras.Sequential([base, keras.layers.Dense(10)])
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(optimizer="adam", loss=loss)
    model.fit([], [], epochs=3)
    base.trainable = True
    model.compile(optimizer=keras.optimizers.Adam(1e-5), loss=loss)
    model.fit([], [], epochs=10)

Quiet: before the first fit

    import keras

    base = keras.applications.ResNet50(include_top=False, pooling="avg")
    model = keras.Sequential([base, keras.layers.Dense(10)])
    model.compile(optimizer="adam", loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    base.trainable = False
    model.fit([], [], epochs=10)
"""

import ast

from gpuproof.findings import Severity
from gpuproof.linter.analysis.call import calls_named
from gpuproof.linter.analysis.module import Module
from gpuproof.linter.analysis.types import TypeKind, type_of
from gpuproof.linter.knowledge.frameworks.torch import is_test
from gpuproof.linter.project import Project
from gpuproof.linter.rule import Hits, Rule

rule = Rule("TF121", "trainable-change-ignored", Severity.ERROR, needs=("trainable",))


@rule.module
def check(module: Module, _: Project) -> Hits:
    if not module.imports("tensorflow", "keras", "tf_keras") or is_test(module):
        return
    changes = [
        statement
        for statement in module.nodes(ast.Assign)
        if isinstance(statement.targets[0], ast.Attribute) and statement.targets[0].attr == "trainable"
    ]
    if not changes:
        return
    fits = [call for call in calls_named(module, "fit") if call.receiver is not None]
    for change in changes:
        function = module.function_of(change)
        here = [
            call
            for call in fits
            if module.function_of(call.node) is function
            and call.receiver is not None
            and type_of(module, call.receiver).kind is TypeKind.KERAS_MODEL
        ]
        before = [call for call in here if call.node.lineno < change.lineno]
        after = [call for call in here if call.node.lineno > change.lineno]
        if not before or not after or module.enclosing(change, ast.If) is not None:
            continue
        first = after[0]
        same = [call for call in before if module.text(call.node.func) == module.text(first.node.func)]
        if not same or _may_be_rebuilt(module, same[-1].node.lineno, first.node.lineno):
            continue
        yield rule.hit(
            module.span(change),
            f"`{module.text(first.node.func)}` in line {module.unit.file_position(first.node.lineno, 1)[1]} ignores this change: "
            "the model has been trained before and is not compiled again.",
            remedy="Call compile after the change, with a small learning rate for fine-tuning.",
        )


def _may_be_rebuilt(module: Module, first: int, last: int) -> bool:
    """Whether code between two lines compiles, replaces or passes on a model."""
    for node in module.nodes(ast.Call):
        if first < node.lineno < last:
            name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            if name == "compile" or (
                isinstance(node.func, ast.Name)
                and module.qualified(node.func) is None
                and name not in _BUILTINS
            ):
                return True
            if name in ("load_model", "Model", "Sequential", "clone_model", "make_train_function"):
                return True
    return False


_BUILTINS = frozenset(
    {"print", "len", "range", "enumerate", "zip", "list", "str", "int", "float", "max", "min", "isinstance"}
)
