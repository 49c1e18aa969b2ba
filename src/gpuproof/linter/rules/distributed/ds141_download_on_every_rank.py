"""Every process downloads the same files to the same place at the same time: they overwrite each other.

The processes of one host share its disk. With `download=True`, or a plain download, in each of them, one reads an archive that
another is still writing: "File not found or corrupted", or a truncated file, in some runs only. One process of each host
downloads, and the others wait at a barrier. The rule does not report paths with a rank in them, downloads under a test of the
rank or inside a `with`, and jobs with one process per host.

Bad:

    import os
    import torch
    import torch.distributed as dist
    from torchvision.datasets import CIFAR10

    def main():
        dist.init_process_group("nccl")
        local_rank = int(os.environ["LOCAL_RANK"])
        torch.cuda.set_device(local_rank)
        data = CIFAR10("/opt/ml/data", train=True, download=True)  # <-

    main()

Bad: Horovod

    import horovod.tensorflow.keras as hvd
    import tensorflow as tf

    hvd.init()
    (x, y), _ = tf.keras.datasets.mnist.load_data()  # <-

Good:

    import os
    import torch
    import torch.distributed as dist
    from torchvision.datasets import CIFAR10

    dist.init_process_group("nccl")
    local_rank = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(local_rank)
    if local_rank == 0:
        CIFAR10("/opt/ml/data", train=True, download=True)
    dist.barrier()
    data = CIFAR10("/opt/ml/data", train=True)

Quiet: the first one downloads, and the others wait

    import os
    import torch.distributed as dist
    from torchvision.datasets import CIFAR10

    dist.init_process_group("nccl")
    local_rank = int(os.environ["LOCAL_RANK"])
    if local_rank != 0:
        dist.barrier()
    data = CIFAR10("/opt/ml/data", train=True, download=True)
    if local_rank == 0:
        dist.barrier()

Quiet: a file for each

    import horovod.tensorflow.keras as hvd
    import tensorflow as tf

    hvd.init()
    (x, y), _ = tf.keras.datasets.mnist.load_data(path="mnist-%d.npz" % hvd.rank())

Quiet: a test of the rank in the argument

    import os
    import torch.distributed as dist
    from torchvision.datasets import CIFAR10

    dist.init_process_group("nccl")
    data = CIFAR10("/opt/ml/data", download=int(os.environ["LOCAL_RANK"]) == 0)
    dist.barrier()
"""

import ast
import re

from gpuproof.findings import Severity
from gpuproof.linter.analysis.call import Call, all_calls, calls_named
from gpuproof.linter.analysis.local_imports import local_modules
from gpuproof.linter.analysis.module import Module
from gpuproof.linter.knowledge.distribution.collectives import BARRIERS
from gpuproof.linter.knowledge.distribution.downloads import downloads
from gpuproof.linter.knowledge.distribution.horovod import library_inits
from gpuproof.linter.knowledge.distribution.ranks import (
    has_one_gpu_per_host,
    process_group_inits,
    runs_on_every_rank,
    runs_several_processes_per_host,
)
from gpuproof.linter.knowledge.frameworks.torch import is_test
from gpuproof.linter.project import Project
from gpuproof.linter.rule import Hits, Rule, lowered

rule = Rule(
    "DS141",
    "download-on-every-rank",
    Severity.WARNING,
    needs=("init_process_group", "horovod", "smdistributed"),
)

_OWN = re.compile(r"rank|worker|host|pid|tmp|temp(?!late)|uuid", re.IGNORECASE)


@rule.module
def check(module: Module, project: Project) -> Hits:
    if is_test(module):
        return
    by_library = library_inits(module)
    starts = by_library or process_group_inits(module)
    if not starts or has_one_gpu_per_host(module, project):
        return
    if not by_library and not runs_several_processes_per_host(module):
        return
    for home in local_modules(module):
        for call in downloads(home):
            if _is_alone(home, call) or not runs_on_every_rank(home, call.node):
                continue
            yield rule.hit(
                call.span,
                f"Every process downloads to the same place at the same time: `{_short(home, call)}`.",
                remedy="Let one process of each host download (if local_rank == 0:), and call barrier() before the others read it.",
                # What Keras downloads is one file, which is complete in most races.
                severity=lowered(rule.severity) if "keras" in (call.name or "") else None,
            )


def _short(module: Module, call: Call) -> str:
    text = module.text(call.node.func)
    return f"{text}(..., download=True)" if "download" in call.keywords else f"{text}(...)"


def _is_alone(module: Module, call: Call) -> bool:
    """Whether processes may take turns at a download, or each has a path of its own."""
    names = [
        node.id if isinstance(node, ast.Name) else node.attr
        for argument in (*call.node.args, *call.keywords.values())
        for written in (argument, module.origin(argument))
        for node in (ast.walk(written) if written is not None else ())
        if isinstance(node, (ast.Name, ast.Attribute))
    ]
    if any(_OWN.search(name) for name in names) or module.enclosing(call.node, ast.With, ast.Try) is not None:
        return True
    function = module.function_of(call.node)
    waits = [
        *calls_named(module, *BARRIERS),
        *(other for other in all_calls(module) if "first" in other.method),
    ]
    return any(
        module.function_of(wait.node) is function and wait.node.lineno < call.node.lineno for wait in waits
    )
