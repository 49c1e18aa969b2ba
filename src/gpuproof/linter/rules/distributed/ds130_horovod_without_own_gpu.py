"""Every process of Horovod uses the first GPU: nothing gives each process the GPU of its local rank.

Horovod starts one process per GPU, and all of them see all GPUs. PyTorch's `.cuda()` is GPU 0 in each process, so one GPU does
the work of all and the others are billed idle; TensorFlow reserves the memory of every GPU in every process and fails with
"out of memory". The rule does not report jobs with one GPU per host.
Source: https://horovod.readthedocs.io/en/stable/tensorflow.html, step 2.

Bad: PyTorch

    import horovod.torch as hvd
    import torch

    hvd.init()
    model = torch.nn.Linear(8, 1).cuda()  # <-
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.1))
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)
    model(torch.rand(4, 8).cuda()).sum().backward()
    optimizer.step()

Bad: TensorFlow, with memory growth only

    import horovod.tensorflow.keras as hvd
    import tensorflow as tf

    hvd.init()  # <-
    for gpu in tf.config.experimental.list_physical_devices("GPU"):
        tf.config.experimental.set_memory_growth(gpu, True)
    model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
    model.compile(optimizer=hvd.DistributedOptimizer(tf.keras.optimizers.Adam(0.001)), loss="mse")
    model.fit([1.0], [1.0], callbacks=[hvd.callbacks.BroadcastGlobalVariablesCallback(0)])

Bad: the same GPU in every process

    import horovod.tensorflow.keras as hvd
    import tensorflow as tf

    hvd.init()
    gpus = tf.config.list_physical_devices("GPU")
    tf.config.set_visible_devices(gpus[0], "GPU")  # <-
    model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
    model.compile(optimizer=hvd.DistributedOptimizer(tf.keras.optimizers.Adam(0.001)), loss="mse")
    model.fit([1.0], [1.0], callbacks=[hvd.callbacks.BroadcastGlobalVariablesCallback(0)])

Good:

    import horovod.torch as hvd
    import torch

    hvd.init()
    torch.cuda.set_device(hvd.local_rank())
    model = torch.nn.Linear(8, 1).cuda()
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.1))
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)
    optimizer.zero_grad()
    model(torch.rand(4, 8).cuda()).sum().backward()
    optimizer.step()

Quiet: the device has the number of the local rank

    import horovod.torch as hvd
    import torch

    hvd.init()
    rank = hvd.local_rank()
    device = torch.device(f"cuda:{rank}")
    model = torch.nn.Linear(8, 1).to(device)
    model(torch.rand(4, 8).to(device)).sum().backward()

Quiet: one GPU on each host

    # file: launch.py
    from sagemaker.pytorch import PyTorch

    PyTorch(
        entry_point="train.py", role="role", framework_version="1.13", py_version="py39",
        instance_count=2, instance_type="ml.g5.xlarge", distribution={"mpi": {"enabled": True, "processes_per_host": 1}},
    ).fit()
    # file: train.py
    import horovod.torch as hvd
    import torch

    hvd.init()
    model = torch.nn.Linear(8, 1).cuda()
    model(torch.rand(4, 8).cuda()).sum().backward()

Quiet: on CPUs

    import horovod.torch as hvd
    import torch

    hvd.init()
    model = torch.nn.Linear(8, 1)
    model(torch.rand(4, 8)).sum().backward()
"""

import ast
import re

from gpuproof.findings import Severity
from gpuproof.linter.analysis.call import Call, calls_named
from gpuproof.linter.analysis.local_imports import local_modules
from gpuproof.linter.analysis.module import Module
from gpuproof.linter.analysis.usage import find_uses, is_message, script_uses
from gpuproof.linter.knowledge.aws.instances import gpus_per_host
from gpuproof.linter.knowledge.distribution.horovod import library_inits, rank_reads, trains_with
from gpuproof.linter.knowledge.distribution.ranks import has_one_gpu_per_host
from gpuproof.linter.knowledge.frameworks.torch import moves_to_gpu
from gpuproof.linter.project import Project
from gpuproof.linter.rule import Hits, Rule

rule = Rule("DS130", "horovod-without-own-gpu", Severity.ERROR, needs=("horovod", "smdistributed"))

_SELECTS = re.compile(r"(^|\.)(set_visible_devices|set_device)$|^torch\.cuda\.device$")
_KEYWORDS = re.compile(r"^(visible_device_list|device_ids)$")
_ATTRIBUTES = re.compile(r"^visible_device_list$")
_TEXTS = re.compile(r"CUDA_VISIBLE_DEVICES|LOCAL_RANK|^cuda:$")
_GPU_OF_TENSORFLOW = re.compile(
    r"(^|\.)(list_physical_devices|list_logical_devices|set_visible_devices|set_memory_growth|set_virtual_device_configuration)$"
)


@rule.module
def check(module: Module, project: Project) -> Hits:
    starts = library_inits(module)
    if not starts or not trains_with(module) or has_one_gpu_per_host(module, project):
        return
    if _selects(module):
        return
    is_torch = ".torch" in (starts[0].name or "")
    jobs = project.jobs_running(module)
    gpus = [gpus_per_host(project, job) for job in jobs]
    place = _fixed_selection(module) or (_first_move(module) if is_torch else starts[0])
    if place is None or (gpus and all(count == 0 for count in gpus)):
        return
    # A script for CPUs of TensorFlow says nothing of GPUs.
    if not is_torch and not any(gpus) and not script_uses(module, _GPU_OF_TENSORFLOW, "call"):
        return
    effect = (
        "every process uses GPU 0, and the others are idle"
        if is_torch or place.method != "init"
        else "every process reserves the memory of all GPUs"
    )
    yield rule.hit(
        place.span,
        f"Nothing gives each process of Horovod its own GPU: {effect}.",
        remedy="Call torch.cuda.set_device(hvd.local_rank()) before anything is moved to the GPU."
        if is_torch
        else 'Call tf.config.set_visible_devices(gpus[hvd.local_rank()], "GPU") after hvd.init(), with gpus = '
        'tf.config.list_physical_devices("GPU").',
    )


def _selects(script: Module) -> bool:
    """Whether anything may choose a GPU by the local rank; a rank that is only printed or compared with 0 chooses nothing."""
    for module, node in rank_reads(script, "local_rank"):
        is_first = isinstance(module.parent(node), (ast.Compare, ast.UnaryOp))
        if not is_first and not is_message(module, node):
            return True
    return (
        any(
            _SELECTS.search(use.text)
            and not (isinstance(use.node, ast.Call) and _is_fixed(Call(use.node, module)))
            for module in local_modules(script)
            for use in find_uses(module, "call")
        )
        or script_uses(script, _KEYWORDS, "keyword")
        or script_uses(script, _ATTRIBUTES, "attribute")
        or script_uses(script, _TEXTS, "string")
    )


def _is_fixed(call: Call) -> bool:
    """Whether a call selects a GPU by a number that is written there: `set_visible_devices(gpus[0], "GPU")`."""
    selected = call.expression(position=0)
    while isinstance(selected, ast.List) and len(selected.elts) == 1:
        selected = selected.elts[0]
    if isinstance(selected, ast.Subscript):
        selected = selected.slice
    return isinstance(selected, ast.Constant)


def _fixed_selection(script: Module) -> Call | None:
    """The call that selects the same GPU in every process."""
    return next(
        (
            call
            for module in local_modules(script)
            for call in calls_named(module, "set_visible_devices", "set_device")
            if _is_fixed(call) and module.enclosing(call.node, ast.If, ast.IfExp) is None
        ),
        None,
    )


def _first_move(script: Module) -> Call | None:
    """The first call that moves something to the GPU without a number."""
    for module in local_modules(script):
        for call in calls_named(module, "cuda", "to"):
            if call.receiver is not None and call.name is None and moves_to_gpu(call):
                return call
    return None
