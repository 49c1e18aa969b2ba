"""The last layer of a Keras model and `from_logits` of its loss do not fit.

A cross-entropy of Keras expects probabilities, unless it is told `from_logits=True`. A model that ends in
`Dense(10)` with the default loss gives it raw scores: they are clipped to the range of probabilities, most gradients are
zero, and the model hardly learns. A model that ends in a softmax with `from_logits=True` squeezes its scores twice:
Keras warns or not, depending on how the loss is computed, and training is slow. The rule reports models whose last layer
and loss are literals, also where a function of the project builds the model or compiles it.

Bad: raw scores for a loss that expects probabilities

    import keras

    model = keras.Sequential([keras.Input((8,)), keras.layers.Dense(16, activation="relu"), keras.layers.Dense(10)])
    model.compile(optimizer="adam", loss="sparse_categorical_crossentropy")  # <-

Bad: probabilities for a loss that expects raw scores

    import tensorflow as tf

    model = tf.keras.Sequential()
    model.add(tf.keras.layers.Dense(10, activation="softmax"))
    model.compile(
        optimizer="adam",
        loss=tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True),  # <-
    )

Bad: a function builds the model, and another one compiles it

    import keras

    def build_model(classes):
        inputs = keras.Input((8,))
        body = keras.layers.Dense(16, activation="relu")
        outputs = keras.layers.Dense(classes, activation="softmax")(body(inputs))
        return keras.Model(inputs, outputs), body

    def compile_model(model, rate):
        model.compile(
            optimizer=keras.optimizers.Adam(rate),
            loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),  # <-
        )

    model, body = build_model(10)
    compile_model(model, 0.001)

Quiet: layers are added to what the function returns

    import keras

    def body():
        net = keras.Sequential()
        net.add(keras.layers.Dense(16))
        return net

    model = body()
    model.add(keras.layers.Softmax())
    model.compile(optimizer="adam", loss="sparse_categorical_crossentropy")

Good:

    import keras

    model = keras.Sequential([keras.Input((8,)), keras.layers.Dense(10)])
    model.compile(optimizer="adam", loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True))

Good:

    import keras

    inputs = keras.Input((8,))
    outputs = keras.layers.Dense(1, activation="sigmoid")(inputs)
    model = keras.Model(inputs, outputs)
    model.compile(optimizer="adam", loss="binary_crossentropy")

Quiet: the last layer is not seen

    import keras
    from heads import head

    model = keras.Sequential([keras.Input((8,)), head()])
    model.compile(optimizer="adam", loss="sparse_categorical_crossentropy")

Quiet: a regression

    import keras

    model = keras.Sequential([keras.Input((8,)), keras.layers.Dense(1)])
    model.compile(optimizer="adam", loss="mse")

Quiet: one name for several models

    import tensorflow as tf

    model = tf.keras.Sequential()
    model.add(tf.keras.layers.Dense(1, activation="sigmoid"))
    model.compile("adam", "binary_crossentropy")
    model = tf.keras.Sequential()
    model.add(tf.keras.layers.Dense(1))
    model.compile("adam", "mse")
"""

import ast
import re

from gpuproof.findings import Severity
from gpuproof.linter.analysis.call import Call, calls_named, origin_call
from gpuproof.linter.analysis.flow.creations import creations
from gpuproof.linter.analysis.module import Module
from gpuproof.linter.analysis.types import TypeKind, type_of
from gpuproof.linter.project import Project
from gpuproof.linter.rule import Hits, Rule
from gpuproof.linter.source.test_files import is_test_file

rule = Rule("TF116", "from-logits-mismatch", Severity.ERROR, needs=("compile",))

_KERAS = re.compile(r"^(tensorflow\.keras|keras|tf_keras)\.")
_LOSS = re.compile(
    r"^(tensorflow\.keras|keras|tf_keras)\.losses\.(SparseCategorical|Categorical|Binary)Crossentropy$"
)
_LOSS_NAMES = frozenset(
    {"sparse_categorical_crossentropy", "categorical_crossentropy", "binary_crossentropy"}
)
_WEIGHTED = frozenset({"Dense", "Conv1D", "Conv2D", "Conv3D", "Conv2DTranspose"})
_PROBABILITIES = frozenset({"softmax", "sigmoid"})


@rule.module
def check(module: Module, _: Project) -> Hits:
    if not module.imports("keras", "tensorflow", "tf_keras") or is_test_file(module.unit):
        return
    for call in calls_named(module, "compile"):
        model, loss = call.receiver, call.expression("loss", 1)
        if model is None or loss is None or type_of(module, model).kind is not TypeKind.KERAS_MODEL:
            continue
        from_logits = _expects_logits(module, loss)
        activation = _last_activation(module, model)
        if from_logits is None or activation is None:
            continue
        if not from_logits and activation == "linear":
            yield rule.hit(
                module.span(loss),
                f"The loss expects probabilities, but the last layer of `{module.text(model)}` has no activation: its raw scores "
                "are clipped, and the model hardly learns.",
                remedy="Pass from_logits=True to the loss, or end the model in a softmax (or a sigmoid for two classes).",
            )
        elif from_logits and activation in _PROBABILITIES:
            yield rule.hit(
                module.span(loss),
                f"The loss expects raw scores (from_logits=True), but `{module.text(model)}` ends in a {activation}.",
                remedy=f"Remove from_logits=True, or the {activation}.",
            )


def _expects_logits(module: Module, loss: ast.expr) -> bool | None:
    """Whether a cross-entropy expects raw scores; None for other losses, and if it is unknown."""
    losses = creations(module, loss)
    if len(losses) > 1:
        return None
    if losses:
        made = losses[0]
        if made.name is None or not _LOSS.match(made.name):
            return None
        value = made.argument("from_logits", 0)
        return False if value.is_absent else value.flag if value.is_known else None
    named = module.origin(loss)
    return False if isinstance(named, ast.Constant) and named.value in _LOSS_NAMES else None


def _last_activation(module: Module, model: ast.expr) -> str | None:
    """The activation of the last layer of a model, `linear` for none; None if it is unknown."""
    found = {_of_model(made, module, model) for made in creations(module, model)}
    return found.pop() if len(found) == 1 else None


def _of_model(made: Call, module: Module, model: ast.expr) -> str | None:
    if made.name is None or not _KERAS.match(made.name):
        return None
    if made.method == "Sequential":
        return _of_sequential(made, module, model)
    if made.method == "Model":
        outputs = origin_call(made.module, made.expression("outputs", 1))
        # `Dense(10)(x)`: a call of a layer.
        return _activation(made.module, outputs.node.func) if outputs is not None else None
    return None


def _of_sequential(made: Call, module: Module, model: ast.expr) -> str | None:
    """The last activation of a Sequential, to which layers may be added where it is created and nowhere else."""
    home, parent = made.module, made.module.parent(made.node)
    target = parent.targets[0] if isinstance(parent, ast.Assign) and len(parent.targets) == 1 else None
    names = {node.id for node in (target, model) if isinstance(node, ast.Name)}
    changes = {
        call
        for each in (home, module)
        for call in calls_named(each, "add", "pop")
        if isinstance(call.receiver, ast.Name) and call.receiver.id in names
    }
    function = home.function_of(made.node)
    if any(
        call.method == "pop" or call.module is not home or home.function_of(call.node) is not function
        for call in changes
    ):
        return None
    end = _next_binding(home, target, made) if isinstance(target, ast.Name) else None
    added = sorted(
        (call for call in changes if end is None or made.node.lineno <= call.node.lineno < end),
        key=lambda call: call.node.lineno,
    )
    if any(home.loops_around(call.node) or home.enclosing(call.node, ast.If) for call in added[-1:]):
        return None
    if added:
        return _activation(home, added[-1].expression("layer", 0))
    layers = home.origin(made.expression("layers", 0))
    last = layers.elts[-1] if isinstance(layers, (ast.List, ast.Tuple)) and layers.elts else None
    return _activation(home, last)


def _next_binding(home: Module, target: ast.Name, made: Call) -> int | None:
    """The line in which a name gets another model, as cells of a notebook do; None if it keeps this one."""
    scope = home.function_of(made.node) or home.tree.root
    lines = [binding.node.lineno for binding in home.names.bindings(scope)[target.id]]  # type: ignore[attr-defined]
    return min((line for line in lines if line > made.node.lineno), default=None)


def _activation(module: Module, layer: ast.expr | None) -> str | None:
    made: Call | None = origin_call(module, layer)
    if made is None or made.name is None or not _KERAS.match(made.name) or ".layers." not in made.name:
        return None
    if made.method in ("Softmax", "Activation"):
        return "softmax" if made.method == "Softmax" else made.argument("activation", 0).text
    if made.method not in _WEIGHTED or made.is_open:
        return None
    positions = {"Dense": 1}
    value = made.argument("activation", positions.get(made.method))
    if value.is_absent or (value.is_known and value.value is None):
        return "linear"
    written = made.expression("activation", positions.get(made.method))
    name = module.qualified(written) if written is not None else None
    return value.text if value.is_known else (name or "").rpartition(".")[2] or None
