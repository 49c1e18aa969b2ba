"""Horovod averages gradients, not weights: copies of the model that start differently stay different.

Each process initializes its model by its own random numbers, and a checkpoint that only rank 0 loads is loaded there only.
Unless rank 0 broadcasts its weights once, before the first step, the ranks apply the same gradients to different weights, and
the average means nothing. With a fixed seed the copies may start equal by luck, so the finding is only a note there.
Source: https://horovod.readthedocs.io/en/stable/pytorch.html, step 5.

Bad: PyTorch

    import horovod.torch as hvd
    import torch

    hvd.init()
    torch.cuda.set_device(hvd.local_rank())
    model = torch.nn.Linear(8, 1).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1 * hvd.size())
    optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())  # <-
    for step in range(100):
        optimizer.zero_grad()
        model(torch.rand(4, 8).cuda()).sum().backward()
        optimizer.step()

Bad: Keras

    import horovod.tensorflow.keras as hvd
    import tensorflow as tf

    hvd.init()
    gpus = tf.config.list_physical_devices("GPU")
    tf.config.set_visible_devices(gpus[hvd.local_rank()], "GPU")
    model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
    optimizer = hvd.DistributedOptimizer(tf.keras.optimizers.Adam(0.001 * hvd.size()))  # <-
    model.compile(optimizer=optimizer, loss="mse")
    model.fit([1.0], [1.0], callbacks=[hvd.callbacks.MetricAverageCallback()])

Good:

    import horovod.tensorflow.keras as hvd
    import tensorflow as tf

    hvd.init()
    gpus = tf.config.list_physical_devices("GPU")
    tf.config.set_visible_devices(gpus[hvd.local_rank()], "GPU")
    model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
    optimizer = hvd.DistributedOptimizer(tf.keras.optimizers.Adam(0.001 * hvd.size()))
    model.compile(optimizer=optimizer, loss="mse")
    data = tf.data.Dataset.from_tensor_slices(([1.0], [1.0])).shard(hvd.size(), hvd.rank()).batch(1).prefetch(2)
    model.fit(data, callbacks=[hvd.callbacks.BroadcastGlobalVariablesCallback(0)])

Quiet: an elastic state does it

    import horovod.torch as hvd
    import torch

    hvd.init()
    model = torch.nn.Linear(8, 1)
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.1))
    state = hvd.elastic.TorchState(model=model, optimizer=optimizer)

    @hvd.elastic.run
    def train(state):
        model(torch.ones(8)).sum().backward()
        optimizer.step()

    train(state)
"""

import re

from gpuproof.findings import Severity
from gpuproof.linter.analysis.module import Module
from gpuproof.linter.analysis.usage import script_uses
from gpuproof.linter.knowledge.distribution.horovod import (
    library_calls,
    library_inits,
    seeds,
    trains_with,
)
from gpuproof.linter.project import Project
from gpuproof.linter.rule import Hits, Rule

rule = Rule("DS129", "horovod-without-broadcast", Severity.WARNING, needs=("horovod", "smdistributed"))

_BROADCASTS = re.compile(
    r"broadcast(?!_optimizer_state)|Broadcast|elastic|TorchState|KerasState|TensorFlowState"
)


@rule.module
def check(module: Module, _: Project) -> Hits:
    starts = library_inits(module)
    if not starts or (starts[0].name or "").startswith("smdistributed.dataparallel.torch"):
        return
    wraps = library_calls(module, "DistributedOptimizer", "DistributedGradientTape")
    if not wraps or not trains_with(module) or script_uses(module, _BROADCASTS, "call", "name", "attribute"):
        return
    kind = (starts[0].name or "").rpartition(".")[0]
    broadcast = (
        "hvd.broadcast_parameters(model.state_dict(), root_rank=0) and hvd.broadcast_optimizer_state(optimizer, root_rank=0) "
        "before the first step"
        if kind.endswith("torch")
        else "hvd.broadcast_variables(model.variables, root_rank=0) after the first step"
        if wraps[0].method == "DistributedGradientTape"
        else "callbacks=[hvd.callbacks.BroadcastGlobalVariablesCallback(0)] in fit()"
        if kind.endswith("keras")
        else "hvd.BroadcastGlobalVariablesHook(0)"
    )
    seeded = seeds(module)
    yield rule.hit(
        wraps[0].span,
        "Nothing broadcasts the weights of rank 0: "
        + (
            "only the seed keeps the copies of the model equal."
            if seeded
            else "each process starts from its own random weights, and averages gradients of different models."
        ),
        remedy=f"Add {broadcast}.",
        severity=Severity.NOTE if seeded else rule.severity,
    )
