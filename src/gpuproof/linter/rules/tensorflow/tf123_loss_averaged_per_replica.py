"""In a step for `strategy.run`, the loss is averaged over the batch of one replica: the gradients are too large by the number of GPUs.

`apply_gradients` sums the gradients of all replicas. The loss of each has to be divided by the global batch size, as
`tf.nn.compute_average_loss` does. With `tf.reduce_mean`, or a loss of Keras with its default reduction (an error in Keras 2), training on
four GPUs has four times the learning rate of training on one.

Bad:

    import tensorflow as tf

    strategy = tf.distribute.MirroredStrategy()
    with strategy.scope():
        model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
        optimizer = tf.keras.optimizers.Adam(1e-3)

    def step(x, y):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.keras.losses.mse(y, model(x, training=True)))  # <-
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables))

    @tf.function
    def train_step(x, y):
        strategy.run(step, args=(x, y))

Good:

    import tensorflow as tf

    strategy = tf.distribute.MirroredStrategy()
    with strategy.scope():
        model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
        optimizer = tf.keras.optimizers.Adam(1e-3)

    def step(x, y):
        with tf.GradientTape() as tape:
            loss = tf.nn.compute_average_loss(tf.keras.losses.mse(y, model(x, training=True)))
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables))

    @tf.function
    def train_step(x, y):
        strategy.run(step, args=(x, y))

Quiet: divided by the number of replicas

    import tensorflow as tf

    strategy = tf.distribute.MirroredStrategy()

    def step(model, optimizer, x, y):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.keras.losses.mse(y, model(x))) / strategy.num_replicas_in_sync
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables))

    def train_step(model, optimizer, x, y):
        strategy.run(step, args=(model, optimizer, x, y))
"""

import ast
import re

from gpuproof.findings import Severity
from gpuproof.linter.analysis.call import Call, calls_named, calls_within, origin_call
from gpuproof.linter.analysis.flow.call_targets import Definition, find_definition, returned_values
from gpuproof.linter.analysis.flow.creations import creations
from gpuproof.linter.analysis.module import Module
from gpuproof.linter.analysis.usage import reached, uses
from gpuproof.linter.knowledge.frameworks.torch import is_test
from gpuproof.linter.project import Project
from gpuproof.linter.rule import Hits, Rule

rule = Rule("TF123", "loss-averaged-per-replica", Severity.WARNING, needs=("apply_gradients",))

_SCALES = re.compile(
    r"(compute_average_loss|num_replicas_in_sync|scale_regularization_loss|ReplicaContext|get_replica_context|world_size|"
    r"num_replicas|n_replicas|GLOBAL_BATCH\w*|global_batch\w*)$",
    re.IGNORECASE,
)
_KERAS_LOSS = re.compile(r"^(tensorflow\.)?keras\.losses\.[A-Z]\w+$")


@rule.module
def check(module: Module, _: Project) -> Hits:
    if not module.imports("tensorflow") or is_test(module):
        return
    for run in calls_named(module, "run", "experimental_run_v2"):
        step = run.expression("fn", 0)
        found = find_definition(module, step) if step is not None and run.receiver is not None else None
        if (
            found is None
            or isinstance(found.node, ast.ClassDef)
            or "strategy" not in module.text(run.node.func).lower()
        ):
            continue
        mean = _mean(found)
        if mean is None or uses(
            found.module, _SCALES, "call", "name", "attribute", within=reached(found.module, found.node)
        ):
            continue
        yield rule.hit(
            mean.span,
            f"`{mean.module.excerpt(mean.node, 50)}` averages over the batch of one replica, and the gradients of all replicas are summed.",
            remedy='Use tf.nn.compute_average_loss, with the losses of all samples (reduction="none").',
        )
        return


def _mean(step: Definition) -> Call | None:
    """The call that averages the loss of which a step takes gradients, over the samples of its replica."""
    module, node = step
    if not calls_within(calls_named(module, "apply_gradients"), node):
        return None
    for call in calls_within(calls_named(module, "gradient"), node):
        found = _average(module, call.expression("target", 0), 0)
        if found is not None:
            return found
    return None


def _average(module: Module, node: ast.expr | None, depth: int) -> Call | None:
    made = origin_call(module, node) if depth < 4 else None
    if made is None:
        return None
    if made.name in ("tensorflow.reduce_mean", "tensorflow.math.reduce_mean"):
        return made
    found = find_definition(module, made.node.func)
    if found is not None and not isinstance(found.node, ast.ClassDef):
        values = returned_values(found)
        return _average(found.module, values[0], depth + 1) if len(values) == 1 else None
    losses = creations(module, made.node.func)
    is_default = bool(losses) and all(
        _KERAS_LOSS.match(loss.name or "") and loss.argument("reduction").is_absent for loss in losses
    )
    return made if is_default else None
