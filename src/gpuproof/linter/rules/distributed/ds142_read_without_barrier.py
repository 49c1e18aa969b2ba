"""One process downloads, and the others read at once: nothing makes them wait until the files are there.

A test of the rank keeps the processes from overwriting each other's files, but the others go on immediately: "Dataset not found",
or half a file, depending on who is faster. `dist.barrier()` after the download makes all wait for it.

Bad:

    import os
    import torch
    import torch.distributed as dist
    from torchvision.datasets import CIFAR10

    dist.init_process_group("nccl")
    local_rank = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(local_rank)
    if local_rank == 0:
        CIFAR10("/opt/ml/data", train=True, download=True)
    data = CIFAR10("/opt/ml/data", train=True, download=False)  # <-

Bad: in the argument

    import torch.distributed as dist
    from torchvision import datasets

    dist.init_process_group("nccl")
    rank = dist.get_rank()
    data = datasets.MNIST("/opt/ml/data", download=(rank == 0))  # <-

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
    data = CIFAR10("/opt/ml/data", train=True, download=False)

Quiet: nothing else reads it

    import torch.distributed as dist
    from torchvision.datasets import CIFAR10

    dist.init_process_group("nccl")
    if dist.get_rank() == 0:
        sample = CIFAR10("/opt/ml/data", download=True)
        print(len(sample))

Quiet: a function waits

    import torch.distributed as dist
    from torchvision.datasets import CIFAR10

    def synchronize():
        dist.barrier()

    dist.init_process_group("nccl")
    if dist.get_rank() == 0:
        CIFAR10("/opt/ml/data", download=True)
    synchronize()
    data = CIFAR10("/opt/ml/data")
"""

import ast

from gpuproof.findings import Severity
from gpuproof.linter.analysis.call import Call, all_calls, calls_to
from gpuproof.linter.analysis.module import Module
from gpuproof.linter.knowledge.distribution.collectives import BARRIERS, called_collective, collective_calls
from gpuproof.linter.knowledge.distribution.downloads import downloads
from gpuproof.linter.knowledge.distribution.rank_conditions import side_of, side_of_test
from gpuproof.linter.knowledge.frameworks.torch import is_test
from gpuproof.linter.project import Project
from gpuproof.linter.rule import Hit, Hits, Rule

rule = Rule("DS142", "read-without-barrier", Severity.WARNING, needs=("download",))


@rule.module
def check(module: Module, _: Project) -> Hits:
    if is_test(module):
        return
    if not module.mentions("rank", "is_main", "is_master"):
        return
    for call in downloads(module):
        if side_of(module, call.node) != "first" or call.name is None:
            continue
        readers = [
            other
            for other in calls_to(module, call.name)
            if other.node.lineno > call.node.lineno
            and module.function_of(other.node) is module.function_of(call.node)
            and side_of(module, other.node) is None
            and module.text(other.node.args[0] if other.node.args else other.node)
            == module.text(call.node.args[0] if call.node.args else call.node)
        ]
        if readers and not _waits(module, call, readers[0]):
            yield _hit(module, readers[0])
            return
    for call in all_calls(module):
        flag = call.expression("download")
        is_dataset = (call.name or "").startswith(("torchvision.datasets.", "torchaudio.datasets."))
        if not is_dataset or flag is None or side_of_test(module, flag) != "first":
            continue
        if side_of(module, call.node) is not None or _waits(module, call, None):
            continue
        if module.enclosing(call.node, ast.With, ast.If, ast.Try) is None:
            yield _hit(module, call)
            return


def _hit(module: Module, call: Call) -> Hit:
    return rule.hit(
        call.span,
        f"The other processes read `{module.text(call.node.func)}` while the first one still downloads it.",
        remedy="Download under if local_rank == 0:, and call dist.barrier() before the others read.",
    )


def _waits(module: Module, first: Call, last: Call | None) -> bool:
    """Whether anything after a download and before the reader, or anywhere in its function, may make the ranks wait."""
    function = module.function_of(first.node)
    collectives = {call.node for call in collective_calls(module)}
    for call in all_calls(module):
        if module.function_of(call.node) is not function:
            continue
        if last is not None and not first.node.lineno <= call.node.lineno <= last.node.lineno:
            continue
        if call.node in collectives or call.method in BARRIERS or called_collective(call) is not None:
            return True
    return False
