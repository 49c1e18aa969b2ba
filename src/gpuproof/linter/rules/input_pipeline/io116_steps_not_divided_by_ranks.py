"""Under Horovod, `steps_per_epoch` counts the batches of the whole dataset, and each rank runs all of them.

With four GPUs each epoch is then four times as long, and the job costs four times as much for the same number of epochs. Horovod's examples
divide: `steps_per_epoch=n // (batch_size * hvd.size())`.

Bad:

    import horovod.tensorflow.keras as hvd
    import tensorflow as tf

    def train(model, dataset, count):
        hvd.init()
        model.compile(optimizer=hvd.DistributedOptimizer(tf.keras.optimizers.SGD(0.01)), loss="mse")
        model.fit(
            dataset.shard(hvd.size(), hvd.rank()).repeat().batch(32).prefetch(tf.data.AUTOTUNE),
            epochs=10,
            steps_per_epoch=count // 32,  # <-
            callbacks=[hvd.callbacks.BroadcastGlobalVariablesCallback(0)],
        )

Good:

    import horovod.tensorflow.keras as hvd
    import tensorflow as tf

    def train(model, dataset, count):
        hvd.init()
        model.compile(optimizer=hvd.DistributedOptimizer(tf.keras.optimizers.SGD(0.01)), loss="mse")
        model.fit(
            dataset.shard(hvd.size(), hvd.rank()).repeat().batch(32).prefetch(tf.data.AUTOTUNE),
            epochs=10,
            steps_per_epoch=count // (32 * hvd.size()),
            callbacks=[hvd.callbacks.BroadcastGlobalVariablesCallback(0)],
        )

Quiet: divided before, or the epochs are

    import horovod.tensorflow.keras as hvd

    def train(model, dataset, count, epochs):
        hvd.init()
        steps = count // 32 // hvd.size()
        model.fit(dataset, epochs=epochs, steps_per_epoch=steps)
        model.fit(dataset, epochs=epochs // hvd.size(), steps_per_epoch=count // 32)
"""

import ast
import re

from gpuproof.findings import Severity
from gpuproof.linter.analysis.call import calls_named, calls_to
from gpuproof.linter.analysis.module import Module
from gpuproof.linter.analysis.usage import reached, uses
from gpuproof.linter.knowledge.frameworks.torch import is_test
from gpuproof.linter.project import Project
from gpuproof.linter.rule import Hits, Rule

rule = Rule("IO116", "steps-not-divided-by-ranks", Severity.WARNING, needs=("steps_per_epoch",))

_RANKS = re.compile(
    r"(^|[._])(size|local_size|world_size|num_replicas\w*|n_gpus|num_gpus|hosts|num_workers)$"
)
_SIZES = ("horovod.tensorflow.keras.init", "horovod.keras.init", "horovod.tensorflow.init")


@rule.module
def check(module: Module, _: Project) -> Hits:
    if not module.imports("horovod") or is_test(module) or not calls_to(module, *_SIZES):
        return
    for call in calls_named(module, "fit", "fit_generator"):
        steps = call.expression("steps_per_epoch")
        made = module.origin(steps)
        if steps is None or not _is_division(made):
            continue
        given = [node for node in (steps, made, call.expression("epochs")) if node is not None]
        if any(
            uses(module, _RANKS, "call", "name", "attribute", within=reached(module, node)) for node in given
        ):
            continue
        yield rule.hit(
            module.span(steps),
            f"Each rank runs `{module.excerpt(made or steps, 40)}` steps an epoch: the ranks read the dataset once each, not once together.",
            remedy="Divide by hvd.size() as well.",
        )


def _is_division(node: ast.expr | None) -> bool:
    """Whether an expression is a number of batches: a size that is divided."""
    while isinstance(node, ast.Call) and node.args:
        node = node.args[0]
    return isinstance(node, ast.BinOp) and isinstance(node.op, (ast.FloorDiv, ast.Div))
