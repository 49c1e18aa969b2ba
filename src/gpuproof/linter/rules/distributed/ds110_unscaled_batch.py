"""The batch size or the learning rate is that of one GPU, and the script trains on several.

Keras divides the batch between the replicas of a strategy: with 8 GPUs and a batch of 32, each computes 4 samples, and mostly waits.
Horovod's batch grows with the number of processes, and the learning rate is usually scaled with it. Both are choices, so the rule is
strict.
Sources: https://www.tensorflow.org/guide/distributed_training, https://horovod.readthedocs.io/en/stable/keras.html.

Bad:

    import tensorflow as tf

    strategy = tf.distribute.MirroredStrategy()
    data = tf.data.Dataset.range(1000).batch(32).prefetch(2)  # <-
    with strategy.scope():
        model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
        model.compile(loss="mse")
    model.fit(data)

Bad: Horovod

    import horovod.tensorflow.keras as hvd
    import tensorflow as tf

    hvd.init()
    optimizer = hvd.DistributedOptimizer(tf.keras.optimizers.SGD(0.01))  # <-

Good:

    import tensorflow as tf

    strategy = tf.distribute.MirroredStrategy()
    data = tf.data.Dataset.range(1000).batch(32 * strategy.num_replicas_in_sync).prefetch(2)
    with strategy.scope():
        model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
        model.compile(loss="mse")
    model.fit(data)

Quiet: with the number of processes

    import horovod.tensorflow.keras as hvd
    import tensorflow as tf

    hvd.init()
    rate = 0.01 * hvd.size()
    optimizer = hvd.DistributedOptimizer(tf.keras.optimizers.SGD(rate))

Quiet: the batch is large

    import tensorflow as tf

    strategy = tf.distribute.MirroredStrategy()
    data = tf.data.Dataset.range(1000).batch(1024)
    with strategy.scope():
        model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
    model.fit(data)
"""

import re

from gpuproof.findings import Severity
from gpuproof.linter.analysis.call import Call, calls_named, origin_call
from gpuproof.linter.analysis.local_imports import local_modules
from gpuproof.linter.analysis.module import Module
from gpuproof.linter.analysis.types import TypeKind, type_of
from gpuproof.linter.analysis.usage import script_uses
from gpuproof.linter.knowledge.distribution.horovod import library_calls, library_inits, rank_reads
from gpuproof.linter.project import Project
from gpuproof.linter.rule import Hits, Rule

rule = Rule("DS110", "unscaled-batch", Severity.NOTE, when="strict", needs=("Strategy", "horovod"))

_SCALES = re.compile(
    r"^(num_replicas_in_sync|device_count|num_gpus|n_gpus?|list_(physical|logical)_devices)$"
)
_STRATEGY = re.compile(r"^tensorflow\.distribute\.(experimental\.)?(MultiWorker)?MirroredStrategy$")
_LARGE = 256
"""A batch that is large enough for several GPUs, in samples."""


@rule.module
def check(module: Module, _: Project) -> Hits:
    if library_inits(module):
        yield from _rates(module)
    if not any(
        _STRATEGY.match(call.name or "")
        for call in calls_named(module, "MirroredStrategy", "MultiWorkerMirroredStrategy")
    ):
        return
    if script_uses(module, _SCALES, "attribute", "call"):
        return
    for home in local_modules(module):
        for call in calls_named(home, "batch"):
            size = call.argument("batch_size", 0)
            is_data = call.receiver is not None and type_of(home, call.receiver).kind is TypeKind.TF_DATASET
            if is_data and size.is_known and size.number is not None and size.number < _LARGE:
                yield rule.hit(
                    call.span,
                    f"Each replica gets its part of {int(size.number)} samples: the batch does not grow with the number of GPUs.",
                    remedy=f"Use batch({int(size.number)} * strategy.num_replicas_in_sync).",
                )
                return


def _rates(module: Module) -> Hits:
    """The optimizers of Horovod with a number for a learning rate."""
    if any(True for _ in rank_reads(module, "size", "local_size")):
        return
    for wrap in library_calls(module, "DistributedOptimizer"):
        made = origin_call(wrap.module, wrap.expression("optimizer", 0))
        rate = _rate(made) if made is not None else None
        if rate is not None:
            yield rule.hit(
                wrap.span,
                f"The learning rate is {rate} with any number of processes, and the batch grows with it.",
                remedy=f"Use {rate} * hvd.size(), with a warm-up.",
            )
            return


def _rate(made: Call) -> float | None:
    for name, position in (("learning_rate", 0), ("lr", 1 if (made.name or "").startswith("torch.") else 0)):
        value = made.argument(name, position)
        if value.is_known and value.number is not None:
            return value.number
    return None
