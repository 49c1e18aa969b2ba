"""A call of Keras with arguments that it does not have: an error, when the instance is already running.

`fit(epoch=3)`, `Dense(10, activate="relu")`, a required argument that is missing, or a parameter of another version. The signatures are data,
read from Keras 2.8 to 3.15; a call is reported if it fails with every version that may run it. Type checkers see nothing of
`tf.keras`, which is loaded lazily. Parameters that Keras has removed are TF107's.

Bad:

    import tensorflow as tf

    model = tf.keras.Sequential([tf.keras.layers.Dense(10, activate="relu")])  # <-
    model.compile(optimizer="adam", loss=tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    model.fit([], [], epoch=3)  # <-

Bad: the size of the kernel is missing

    import keras

    layer = keras.layers.Conv2D(filters=32)  # <-

Good:

    import tensorflow as tf

    model = tf.keras.Sequential([tf.keras.layers.Dense(10, activation="relu"), tf.keras.layers.Dense(10)])
    model.compile(optimizer="adam", loss=tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    model.fit([], [], epochs=3)

Quiet: arguments that are not seen, names of the base class, and a model with its own fit

    import keras

    class Own(keras.Model):
        def fit(self, data, rounds):
            return data

    def build(options):
        Own().fit([], rounds=3)
        keras.layers.Conv2D(**options)
        return keras.layers.Dense(10, input_shape=(4,), name="first", dtype="float32")

Quiet: written for Keras 1

    from keras.layers import Dense

    layer = Dense(output_dim=10, init="uniform")
"""

from gpuproof.findings import Severity
from gpuproof.linter.analysis.call import Call, calls_named
from gpuproof.linter.analysis.flow.creations import creations
from gpuproof.linter.analysis.module import Module
from gpuproof.linter.analysis.types import TypeKind, type_of
from gpuproof.linter.knowledge.frameworks.call_signatures import calls_that_may_be, find_mismatch, known_calls
from gpuproof.linter.knowledge.frameworks.framework_version import Ternary
from gpuproof.linter.knowledge.frameworks.tensorflow import (
    has_keras_3,
    removed_from_keras,
    targets_old_tensorflow,
    tensorflow_is_at_least,
)
from gpuproof.linter.knowledge.frameworks.torch import is_test
from gpuproof.linter.project import Project
from gpuproof.linter.rule import Hits, Rule
from gpuproof.linter.sdk.names import is_guarded

rule = Rule("TF117", "wrong-keras-arguments", Severity.ERROR, needs=("keras",))

_METHODS = ("fit", "compile", "evaluate", "predict")
_KERAS_1 = frozenset(
    [
        "init",
        "border_mode",
        "nb_epoch",
        "nb_filter",
        "subsample",
        "output_dim",
        "W_regularizer",
        "b_regularizer",
        "dim_ordering",
        "inner_init",
        "forget_bias_init",
        "inner_activation",
        "dropout_W",
        "dropout_U",
        "samples_per_epoch",
        "nb_val_samples",
        "p_W",
        "nb_row",
        "nb_col",
    ]
)
"""Parameters of Keras 1."""


@rule.module
def check(module: Module, project: Project) -> Hits:
    if not module.imports("tensorflow", "keras") or is_test(module) or targets_old_tensorflow(module):
        return
    calls = list(_calls(module))
    if any(
        keyword in _KERAS_1
        for call, name in calls
        for keyword in call.keywords
        if keyword != "output_dim" or "Embedding" not in name
    ):
        return
    removed = {row.name for row in removed_from_keras()}
    for call, name in calls:
        found = find_mismatch(
            call, name, lambda version: _at_least(module, project, version), holder=call.method
        )
        if found is None or getattr(found.node, "arg", "") in removed or is_guarded(module, call.node):
            continue
        yield rule.hit(module.span(found.node), f"{found.problem}: the call fails.", remedy=found.remedy)


def _calls(module: Module) -> list[tuple[Call, str]]:
    """The calls of Keras that are in the table, and their names in it."""
    names = known_calls("keras")
    found = [
        (call, name)
        for call in calls_that_may_be(module, names)
        if call.name is not None
        and "keras" in call.name
        and (name := call.name.removeprefix("tensorflow.")) in names
    ]
    for call in calls_named(module, *_METHODS):
        if call.receiver is None or type_of(module, call.receiver).kind is not TypeKind.KERAS_MODEL:
            continue
        made = creations(module, call.receiver)
        # A class of the project may have its own methods.
        if made and all((each.name or "").startswith(("keras.", "tensorflow.keras.")) for each in made):
            found.append((call, f"keras.Model:{call.method}"))
    return found


def _at_least(module: Module, project: Project, version: str) -> Ternary:
    """Whether a script runs on this version of Keras or a newer one."""
    if not version.startswith("3."):
        return tensorflow_is_at_least(module, project, version)
    is_third = has_keras_3(module, project)
    # pip installs any version of Keras 3 for TensorFlow 2.16 and later.
    return is_third if version == "3.0" or is_third == "no" else "unknown"
