"""Every process of Horovod reads all the data in every epoch: more GPUs make a step larger and an epoch no shorter.

Horovod does not split data. Either each process reads its share (`dataset.shard(hvd.size(), hvd.rank())`, a
`DistributedSampler`, a slice), or the number of steps or epochs is divided by `hvd.size()`. A script that uses the number of
processes for its learning rate only does neither, and on 8 GPUs computes, and pays for, 8 times the epochs it names.
Source: https://horovod.readthedocs.io/en/stable/keras.html.

Bad:

    import horovod.tensorflow.keras as hvd
    import tensorflow as tf

    hvd.init()
    gpus = tf.config.list_physical_devices("GPU")
    tf.config.set_visible_devices(gpus[hvd.local_rank()], "GPU")
    (x, y), _ = tf.keras.datasets.mnist.load_data()
    model = tf.keras.Sequential([tf.keras.layers.Dense(10)])
    optimizer = hvd.DistributedOptimizer(tf.keras.optimizers.Adam(0.001 * hvd.size()))
    model.compile(optimizer=optimizer, loss="mse")
    callbacks = [hvd.callbacks.BroadcastGlobalVariablesCallback(0)]
    model.fit(x, y, batch_size=128, epochs=24, callbacks=callbacks, verbose=1 if hvd.rank() == 0 else 0)  # <-

Bad: PyTorch

    import horovod.torch as hvd
    import torch
    from torch.utils.data import DataLoader

    hvd.init()
    torch.cuda.set_device(hvd.local_rank())
    model = torch.nn.Linear(8, 1).cuda()
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.1 * hvd.size()))
    loader = DataLoader(torch.rand(64, 8), batch_size=4, shuffle=True)  # <-
    for epoch in range(3):
        for x in loader:
            optimizer.zero_grad()
            model(x.cuda()).sum().backward()
            optimizer.step()

Good:

    import horovod.tensorflow.keras as hvd
    import tensorflow as tf

    hvd.init()
    gpus = tf.config.list_physical_devices("GPU")
    tf.config.set_visible_devices(gpus[hvd.local_rank()], "GPU")
    (x, y), _ = tf.keras.datasets.mnist.load_data()
    data = tf.data.Dataset.from_tensor_slices((x, y)).shard(hvd.size(), hvd.rank()).shuffle(1000).batch(128).prefetch(2)
    model = tf.keras.Sequential([tf.keras.layers.Dense(10)])
    model.compile(optimizer=hvd.DistributedOptimizer(tf.keras.optimizers.Adam(0.001)), loss="mse")
    model.fit(data, epochs=24, callbacks=[hvd.callbacks.BroadcastGlobalVariablesCallback(0)])

Quiet: fewer steps in each process

    import horovod.tensorflow.keras as hvd
    import tensorflow as tf

    hvd.init()
    (x, y), _ = tf.keras.datasets.mnist.load_data()
    data = tf.data.Dataset.from_tensor_slices((x, y)).repeat().shuffle(1000).batch(128)
    model = tf.keras.Sequential([tf.keras.layers.Dense(10)])
    model.compile(optimizer=hvd.DistributedOptimizer(tf.keras.optimizers.Adam(0.001 * hvd.size())), loss="mse")
    model.fit(data, steps_per_epoch=500 // hvd.size(), epochs=24)

Quiet: another part of the data by rank

    import horovod.torch as hvd
    import torch
    from torch.utils.data import DataLoader

    hvd.init()
    model = torch.nn.Linear(8, 1)
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.1))
    loader = DataLoader(torch.load(f"part-{hvd.rank()}.pt", weights_only=True), batch_size=4, shuffle=True)
    for x in loader:
        model(x).sum().backward()
        optimizer.step()
"""

import ast
import re

from gpuproof.findings import Severity
from gpuproof.linter.analysis.call import Call, calls_named
from gpuproof.linter.analysis.local_imports import local_modules, unseen_imports
from gpuproof.linter.analysis.module import Module
from gpuproof.linter.analysis.syntax_index import callee_name
from gpuproof.linter.analysis.usage import is_message, script_uses
from gpuproof.linter.knowledge.distribution.horovod import library_calls, library_inits, rank_reads
from gpuproof.linter.knowledge.distribution.launchers import shards_input
from gpuproof.linter.project import Project
from gpuproof.linter.rule import Hits, Rule

rule = Rule("DS131", "horovod-without-share", Severity.WARNING, needs=("horovod",))

_SPLITS = re.compile(
    r"(^|\.)(Distributed\w*Sampler|\w*BatchSampler|shard\w*|partition\w*|make_petastorm\w*|make_batch_reader|make_reader"
    r"|split_dataset_by_node|IterableDataset)$"
)
_VARIABLES = re.compile(r"OMPI_|SM_CURRENT_HOST|SM_HOSTS|LOCAL_RANK|^(num_shards|num_replicas|cur_shard)$")
_RATE = re.compile(
    r"(^|_)(lr|learning_rate|rate|eta|scaled|scale|momentum|warmup|verbose)(_|$)|lr$", re.IGNORECASE
)
_OPTIMIZERS = re.compile(
    r"^(Adam\w*|SGD|RMSprop\w*|Adagrad|Adadelta|Nadam|Adamax|Ftrl|LARS|LAMB|\w*Optimizer|LearningRate\w*|\w*LR"
    r"|Broadcast\w*|broadcast\w*|set_device|set_visible_devices|print|info)$"
)
_KNOWN = frozenset({"horovod", "transformers", "datasets", "evaluate", "peft", "tokenizers", "tqdm"})


@rule.module
def check(module: Module, project: Project) -> Hits:
    if not library_inits(module):
        return
    place = _reads_all(module)
    if place is None or not library_calls(module, "DistributedOptimizer", "DistributedGradientTape"):
        return
    if script_uses(module, _SPLITS, "call", "name") or script_uses(module, _VARIABLES, "string", "keyword"):
        return
    if any(not _is_other(owner, node) for owner, node in rank_reads(module, "size", "rank", "local_rank")):
        return
    if set(unseen_imports(module)) - _KNOWN or any(shards_input(job) for job in project.jobs_running(module)):
        return
    is_torch = place.method == "DataLoader"
    yield rule.hit(
        place.span,
        "Every process reads the whole dataset in every epoch: neither the data nor the steps are divided by hvd.size().",
        remedy="Pass sampler=DistributedSampler(dataset, num_replicas=hvd.size(), rank=hvd.rank()) without shuffle=True."
        if is_torch
        else "Read data.shard(hvd.size(), hvd.rank()) in each process, or divide steps_per_epoch or epochs by hvd.size().",
    )


def _reads_all(script: Module) -> Call | None:
    """The call that reads the data for the training: a loader that shuffles all, or `fit()` with what it gets."""
    for module in local_modules(script):
        for call in calls_named(module, "DataLoader"):
            shuffles = call.argument("shuffle", 2)
            if shuffles.is_known and shuffles.flag is True and call.argument("sampler", 3).is_unset:
                return call
        for call in calls_named(module, "fit", "fit_generator"):
            is_keras = (
                call.receiver is not None and call.name is None and module.imports("tensorflow", "keras")
            )
            if is_keras and not call.is_open and call.argument("steps_per_epoch").is_absent:
                return call
    return None


def _is_other(module: Module, node: ast.AST) -> bool:
    """Whether a rank or number of processes certainly chooses no data: it is compared, printed or scales a rate."""
    if is_message(module, node):
        return True
    child = node
    for ancestor in module.tree.ancestors(node):
        match ancestor:
            case ast.Compare(left=left, comparators=[ast.Constant()]):
                # `hvd.rank() == 0`, and not `index % hvd.size() == 0`.
                return left is child
            case ast.Compare():
                return False
            case ast.Subscript(slice=place) if place is child:
                # `gpus[hvd.local_rank()]`
                return "gpu" in module.text(ancestor.value).lower() or "device" in module.text(ancestor.value)
            case ast.Call() if child is not ancestor.func:
                name = callee_name(ancestor)
                if _OPTIMIZERS.match(name):
                    return True
                if name not in ("float", "int", "str", "max", "min", "sqrt", "print"):
                    return False
            case ast.keyword(arg=name) if name and _RATE.search(name):
                return True
            case ast.Assign(targets=[ast.Name(id=name)]) | ast.AugAssign(target=ast.Name(id=name)):
                return _RATE.search(name) is not None or _only_selects(module, ancestor)
            case ast.If(test=test) if test is child:
                return True
            case ast.stmt():
                return isinstance(ancestor, ast.Expr)
            case _:
                pass
        child = ancestor
    return False


def _only_selects(module: Module, statement: ast.Assign | ast.AugAssign) -> bool:
    """Whether a variable that holds a rank or number of processes is itself used for other things only."""
    target = statement.targets[0] if isinstance(statement, ast.Assign) else statement.target
    if not isinstance(target, ast.Name) or module.function_of(statement) is None:
        return False
    readers = [
        use
        for use in module.tree.uses_of(target.id)
        if any(binding.node is target for binding in module.reaching(use))
    ]
    return all(_is_other(module, use) for use in readers)
