"""Only some ranks make a collective call: they wait for the others, which never come, until NCCL's time limit.

`barrier`, `all_reduce`, `broadcast` and the like complete when every rank of the group has called them. Under `if rank == 0:`,
rank 0 waits alone; the job stands still with all GPUs billed, for 10 minutes with NCCL and 30 with Gloo unless
`init_process_group(timeout=)` says otherwise, and then fails. The same holds for a function of the project that makes such a
call. The rule does not report calls for which the other ranks have a call of their own, such as `if rank != 0: barrier()` before
and `if rank == 0: barrier()` after a download, and groups of some ranks.
Source: https://docs.pytorch.org/docs/stable/distributed.html, "Collective functions".

Bad:

    import torch
    import torch.distributed as dist

    dist.init_process_group("nccl")
    rank = dist.get_rank()
    model = torch.nn.Linear(8, 1).cuda()
    if rank == 0:
        torch.save(model.state_dict(), "model.pt")
        dist.barrier()  # <-
    model.load_state_dict(torch.load("model.pt", weights_only=True))

Bad: a function that reduces its result

    import torch
    import torch.distributed as dist

    def evaluate(model, batches):
        total = torch.zeros(1).cuda()
        for x in batches:
            total += model(x).sum()
        dist.all_reduce(total)
        return total

    def main():
        dist.init_process_group("nccl")
        model = torch.nn.Linear(8, 1).cuda()
        if dist.get_rank() == 0:
            print(evaluate(model, []))  # <-

    main()

Bad: Accelerate

    from accelerate import Accelerator

    accelerator = Accelerator()
    if accelerator.is_main_process:
        print("saving")
        accelerator.wait_for_everyone()  # <-

Good:

    import torch
    import torch.distributed as dist

    dist.init_process_group("nccl")
    rank = dist.get_rank()
    torch.cuda.set_device(rank % torch.cuda.device_count())
    model = torch.nn.Linear(8, 1).cuda()
    if rank == 0:
        torch.save(model.state_dict(), "model.pt")
    dist.barrier()
    model.load_state_dict(torch.load("model.pt", weights_only=True, map_location="cuda"))

Quiet: the other ranks wait before the first one downloads

    import torch.distributed as dist
    from torchvision.datasets import CIFAR10

    def load(local_rank):
        if local_rank != 0:
            dist.barrier()
        data = CIFAR10("data", download=True)
        if local_rank == 0:
            dist.barrier()
        return data

Quiet: both branches

    import torch
    import torch.distributed as dist

    def share(rank, value):
        if rank == 0:
            tensor = torch.tensor(value)
            dist.broadcast(tensor, src=0)
        else:
            tensor = torch.zeros(1)
            dist.broadcast(tensor, src=0)
        return tensor

Quiet: a group of its own

    import torch.distributed as dist

    dist.init_process_group("nccl")
    leaders = dist.new_group([0])
    if dist.get_rank() == 0:
        dist.barrier(group=leaders)

Quiet: the function reduces nothing on one rank

    import torch
    import torch.distributed as dist

    def evaluate(total, distributed):
        if distributed and dist.get_rank() > 0:
            return total
        if dist.get_world_size() == 1:
            return total
        dist.all_reduce(total)
        return total

    if dist.get_rank() == 0:
        print(evaluate(torch.zeros(1), False))
"""

import re

from gpuproof.findings import Severity
from gpuproof.linter.analysis.call import Call, all_calls, calls_named
from gpuproof.linter.analysis.module import Module
from gpuproof.linter.knowledge.distribution.collectives import (
    called_collective,
    collective_calls,
    has_own_group,
)
from gpuproof.linter.knowledge.distribution.rank_conditions import side_of, sides_around
from gpuproof.linter.knowledge.frameworks.torch import is_test
from gpuproof.linter.project import Project
from gpuproof.linter.rule import Hits, Rule

rule = Rule(
    "DS132",
    "collective-on-some-ranks",
    Severity.ERROR,
    needs=("rank", "is_main", "is_local_main", "is_master", "is_global_zero"),
)

_LOCAL = re.compile(r"local|node|device|gpu", re.IGNORECASE)


@rule.module
def check(module: Module, _: Project) -> Hits:
    if is_test(module):
        return
    if not module.mentions("distributed", "horovod", "ccelerat"):
        return
    direct = collective_calls(module)
    nodes = {call.node for call in direct}
    for call in direct:
        if has_own_group(call) or (found := _ranks(module, call)) is None:
            continue
        if _others_call(module, call, found, direct):
            continue
        yield rule.hit(
            call.span,
            f"Only {found} {'calls' if found == 'rank 0' else 'call'} {call.method}(), which waits for all of them: the job hangs.",
            remedy=f"Move {call.method}() out of the condition, so that every rank calls it.",
        )
    for call in all_calls(module):
        if call.node in nodes or (found := _ranks(module, call)) is None:
            continue
        inner = called_collective(call)
        if inner is None or _others_call(module, call, found, all_calls(module)):
            continue
        if inner.method in _made_elsewhere(module, call, found):
            continue
        line = inner.module.unit.file_position(inner.node.lineno, 1)[1]
        yield rule.hit(
            call.span,
            f"Only {found} {'runs' if found == 'rank 0' else 'run'} {call.method}(), but line {line} of `{inner.module.title}` in it "
            f"calls {inner.method}(), which waits for all ranks: the job hangs.",
            remedy=f"Run {call.method}() on every rank, and only print or save its result on rank 0.",
        )


def _ranks(module: Module, call: Call) -> str | None:
    """The only ranks that make a call, for messages."""
    test = next(iter(sides_around(module, call.node)), None)
    if test is None:
        return None
    side, condition = test
    if _LOCAL.search(module.text(condition)) and calls_named(module, "new_group", "new_subgroups"):
        return None
    return "rank 0" if side == "first" else "the other ranks"


def _others_call(module: Module, call: Call, ranks: str, calls: list[Call]) -> bool:
    """Whether the other ranks have a call of their own of the same function, or some collective, in this function."""
    opposite = "others" if ranks == "rank 0" else "first"
    function = module.function_of(call.node)
    return any(
        other.node is not call.node
        and other.method == call.method
        and module.function_of(other.node) is function
        and side_of(module, other.node) == opposite
        for other in calls
    )


def _made_elsewhere(module: Module, call: Call, ranks: str) -> set[str]:
    """The collectives that the other ranks call directly in this function."""
    opposite = "others" if ranks == "rank 0" else "first"
    function = module.function_of(call.node)
    return {
        other.method
        for other in collective_calls(module)
        if module.function_of(other.node) is function and side_of(module, other.node) == opposite
    }
