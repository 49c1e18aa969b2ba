"""The script starts Horovod, but no gradient passes through it: each process trains its own model.

`hvd.init()` only numbers the processes. Unless the optimizer is wrapped in `hvd.DistributedOptimizer`, the tape in
`hvd.DistributedGradientTape`, or gradients are reduced by hand, the copies diverge, every process repeats the same work, and
the saved model has learned from the data of one process only. The job succeeds. The same holds for SageMaker's data parallel library,
and for a wrapped optimizer that nothing uses.
Source: https://horovod.readthedocs.io/en/stable/pytorch.html.

Bad: PyTorch

    import horovod.torch as hvd
    import torch

    hvd.init()  # <-
    torch.cuda.set_device(hvd.local_rank())
    model = torch.nn.Linear(8, 1).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1 * hvd.size())
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)
    for step in range(100):
        optimizer.zero_grad()
        model(torch.rand(4, 8).cuda()).sum().backward()
        optimizer.step()

Bad: Keras

    import horovod.tensorflow.keras as hvd
    import tensorflow as tf

    hvd.init()  # <-
    gpus = tf.config.list_physical_devices("GPU")
    tf.config.set_visible_devices(gpus[hvd.local_rank()], "GPU")
    model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
    model.compile(optimizer=tf.keras.optimizers.Adam(0.001 * hvd.size()), loss="mse")
    model.fit([1.0], [1.0], callbacks=[hvd.callbacks.BroadcastGlobalVariablesCallback(0)])

Bad: the wrapped optimizer is dropped

    import horovod.torch as hvd
    import torch

    hvd.init()
    torch.cuda.set_device(hvd.local_rank())
    model = torch.nn.Linear(8, 1).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)
    hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())  # <-
    for step in range(100):
        model(torch.rand(4, 8).cuda()).sum().backward()
        optimizer.step()

Good:

    import horovod.torch as hvd
    import torch

    hvd.init()
    torch.cuda.set_device(hvd.local_rank())
    model = torch.nn.Linear(8, 1).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1 * hvd.size())
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)
    hvd.broadcast_optimizer_state(optimizer, root_rank=0)
    optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())
    for step in range(100):
        optimizer.zero_grad()
        model(torch.rand(4, 8).cuda()).sum().backward()
        optimizer.step()
    if hvd.rank() == 0:
        torch.save(model.state_dict(), "/opt/ml/model/model.pth")

Quiet: a tape

    import horovod.tensorflow as hvd
    import tensorflow as tf

    hvd.init()
    model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
    optimizer = tf.keras.optimizers.Adam()
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(model(tf.ones((1, 8))))
    tape = hvd.DistributedGradientTape(tape)
    optimizer.apply_gradients(zip(tape.gradient(loss, model.trainable_variables), model.trainable_variables))

Quiet: nothing is trained

    import horovod.torch as hvd
    import torch

    hvd.init()
    print(hvd.rank(), torch.ones(1))
"""

import ast

from gpuproof.findings import Severity
from gpuproof.linter.analysis.call import Call
from gpuproof.linter.analysis.local_imports import unseen_imports
from gpuproof.linter.analysis.module import Module
from gpuproof.linter.knowledge.distribution.horovod import (
    library_calls,
    library_inits,
    library_title,
    shares_gradients,
    trains_with,
)
from gpuproof.linter.project import Project
from gpuproof.linter.rule import Hits, Rule

rule = Rule(
    "DS128",
    "horovod-without-optimizer",
    Severity.ERROR,
    needs=("horovod", "smdistributed", "byteps"),
)

_OF_LIBRARY = frozenset({"horovod", "smdistributed", "byteps"})
_HARMLESS = frozenset({"transformers", "datasets", "evaluate", "peft", "tokenizers", "tqdm"})


@rule.module
def check(module: Module, _: Project) -> Hits:
    starts = library_inits(module)
    if not starts or not trains_with(module):
        return
    for call in library_calls(module, "DistributedOptimizer", "DistributedGradientTape"):
        if _is_dropped(call):
            yield rule.hit(
                call.span,
                f"The result of {call.method}() is never used: the processes exchange no gradients.",
                remedy=f"Use what it returns: {'optimizer' if call.method.endswith('Optimizer') else 'tape'} = "
                f"{call.module.text(call.node.func)}(...).",
            )
            return
    if shares_gradients(module) or set(unseen_imports(module)) - _OF_LIBRARY - _HARMLESS:
        return
    wrap = (
        "wrap the model: model = DistributedDataParallel(model)"
        if (starts[0].name or "").startswith("smdistributed.dataparallel.torch")
        else "wrap the optimizer: optimizer = hvd.DistributedOptimizer(optimizer), or the tape in hvd.DistributedGradientTape"
    )
    yield rule.hit(
        starts[0].span,
        f"{library_title(starts[0])} is started, but no gradient passes through it: each process trains its own model.",
        remedy=f"{wrap[0].upper()}{wrap[1:]}.",
    )


def _is_dropped(call: Call) -> bool:
    """Whether nothing reads what a call returns."""
    module = call.module
    parent = module.parent(call.node)
    if isinstance(parent, ast.Expr):
        return True
    if not isinstance(parent, ast.Assign) or len(parent.targets) != 1:
        return False
    target = parent.targets[0]
    if not isinstance(target, ast.Name):
        return False
    readers = module.tree.uses_of(target.id)
    return module.function_of(call.node) is not None and not any(
        any(binding.node is target for binding in module.reaching(use)) for use in readers
    )
