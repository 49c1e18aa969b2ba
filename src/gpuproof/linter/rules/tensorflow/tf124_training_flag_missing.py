"""A model with dropout or batch normalization is called in a training step without `training=True`: these layers are off.

In a custom training loop, Keras does not know that it is training: `model(x)` runs in inference mode. Dropout does nothing, and batch
normalization uses its initial statistics, which are never updated, so that the model does not learn properly or works only by luck.

Bad:

    import tensorflow as tf

    model = tf.keras.Sequential([tf.keras.layers.Dense(64), tf.keras.layers.BatchNormalization(), tf.keras.layers.Dense(1)])
    optimizer = tf.keras.optimizers.Adam()

    @tf.function
    def step(x, y):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.keras.losses.mse(y, model(x)))  # <-
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables))

Good:

    import tensorflow as tf

    model = tf.keras.Sequential([tf.keras.layers.Dense(64), tf.keras.layers.BatchNormalization(), tf.keras.layers.Dense(1)])
    optimizer = tf.keras.optimizers.Adam()

    @tf.function
    def step(x, y):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.keras.losses.mse(y, model(x, training=True)))
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables))

Quiet: no layer depends on the mode, or it is not seen

    import tensorflow as tf
    from nets import build

    plain = tf.keras.Sequential([tf.keras.layers.Dense(64), tf.keras.layers.Dense(1)])
    other = build()
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(plain(1.0) + other(1.0))
"""

import ast
import re

from gpuproof.findings import Severity
from gpuproof.linter.analysis.call import all_calls, calls_named, calls_to, calls_within
from gpuproof.linter.analysis.flow.creations import creations
from gpuproof.linter.analysis.module import Module
from gpuproof.linter.analysis.types import TypeKind, type_of
from gpuproof.linter.analysis.usage import uses
from gpuproof.linter.fixing.edits import add_keyword
from gpuproof.linter.knowledge.frameworks.torch import is_test
from gpuproof.linter.project import Project
from gpuproof.linter.rule import Hits, Rule
from gpuproof.linter.source.edit import Fix

rule = Rule("TF124", "training-flag-missing", Severity.WARNING, needs=("GradientTape",))

_DEPENDS = re.compile(r"keras\.layers\.(\w*Dropout\w*|BatchNormalization|GaussianNoise|Random[A-Z]\w+)$")
_TRAINING = re.compile(r"(^|\.)(set_learning_phase|learning_phase_scope)$")


@rule.module
def check(module: Module, _: Project) -> Hits:
    if not module.imports("tensorflow") or is_test(module) or uses(module, _TRAINING, "call"):
        return
    for tape in calls_to(module, "tensorflow.GradientTape"):
        block = module.tree.statement(tape.node)
        function = module.function_of(tape.node) or module.tree.root
        if block is None or not calls_within(calls_named(module, "apply_gradients"), function):
            continue
        for call in calls_within(all_calls(module), block):
            if len(call.node.args) != 1 or not call.argument("training").is_absent:
                continue
            if (
                not isinstance(call.node.func, ast.Name)
                or type_of(module, call.node.func).kind is not TypeKind.KERAS_MODEL
            ):
                continue
            made = creations(module, call.node.func)
            if len(made) != 1 or made[0].method not in ("Sequential", "Model"):
                continue
            home = made[0].module
            built_in = home.function_of(made[0].node) or made[0].node
            if uses(home, _DEPENDS, "call", within=built_in):
                name = call.node.func.id
                yield rule.hit(
                    call.span,
                    f"`{module.text(call.node)}` runs in inference mode: dropout is off, and batch normalization does not learn.",
                    remedy=f"Write {name}(..., training=True).",
                    fix=Fix("Pass training=True", (add_keyword(call, "training=True"),)),
                )
