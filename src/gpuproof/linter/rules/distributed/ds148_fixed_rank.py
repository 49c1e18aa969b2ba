"""Every process joins the group with the same rank, or as a group of its own: they never meet.

`rank=0` of `world_size=4` in each of 4 processes: rank 0 waits for three that never come, until the time limit of 10 minutes or
more. `world_size=1` in a job that starts several processes makes each a group of its own: each trains its own model, and all of
them write it to the same place. Ranks come from the launcher (`RANK`, `WORLD_SIZE`) or from `mp.spawn`. A DistributedSampler with
a number for its rank gives every process the same share, and the rest of the data is never read.

Bad:

    import torch
    import torch.distributed as dist

    dist.init_process_group("nccl", init_method="tcp://127.0.0.1:29500", rank=0, world_size=4)  # <-
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(8, 1).cuda())

Bad: alone in each process

    # file: launch.py
    from sagemaker.pytorch import PyTorch

    PyTorch(
        entry_point="train.py", role="role", framework_version="2.3", py_version="py311", instance_count=1,
        instance_type="ml.g5.12xlarge", distribution={"torch_distributed": {"enabled": True}},
    ).fit()
    # file: train.py
    import torch
    import torch.distributed as dist

    dist.init_process_group("nccl", rank=0, world_size=1)  # <-
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(8, 1).cuda())

Bad: the rank of spawn is not used

    import os
    import torch
    import torch.distributed as dist

    def worker(rank, size):
        os.environ["MASTER_ADDR"], os.environ["MASTER_PORT"] = "localhost", "29500"
        dist.init_process_group("nccl", rank=0, world_size=size)  # <-
        torch.cuda.set_device(rank)

    if __name__ == "__main__":
        gpus = torch.cuda.device_count()
        torch.multiprocessing.spawn(worker, args=(gpus,), nprocs=gpus)

Bad: every process reads the first share

    import torch.distributed as dist
    from torch.utils.data import DistributedSampler

    dist.init_process_group("nccl")
    sampler = DistributedSampler(range(64), num_replicas=dist.get_world_size(), rank=0)  # <-

Good:

    import os
    import torch
    import torch.distributed as dist

    dist.init_process_group("nccl")
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(8, 1).cuda())

Quiet: a process on a machine of its own

    import torch
    import torch.distributed as dist

    dist.init_process_group("gloo", init_method="tcp://127.0.0.1:29500", rank=0, world_size=1)

Quiet: all of the data in each process, and a share for one process

    import torch.distributed as dist
    from torch.utils.data import DistributedSampler

    dist.init_process_group("nccl")
    validation = DistributedSampler(range(64), num_replicas=1, rank=0, shuffle=False)
    if dist.get_rank() == 0:
        preview = DistributedSampler(range(64), num_replicas=dist.get_world_size(), rank=0)

Quiet: another branch joins as another rank

    import sys
    import torch.distributed as dist

    if sys.argv[1] == "server":
        dist.init_process_group("gloo", init_method="tcp://10.0.0.1:29500", rank=0, world_size=2)
    else:
        dist.init_process_group("gloo", init_method="tcp://10.0.0.1:29500", rank=1, world_size=2)
"""

import ast

from gpuproof.findings import Severity
from gpuproof.linter.analysis.call import Call, calls_to
from gpuproof.linter.analysis.module import Module
from gpuproof.linter.knowledge.aws.instances import gpus_per_host
from gpuproof.linter.knowledge.distribution.launchers import enabled_launchers, host_count
from gpuproof.linter.knowledge.distribution.ranks import process_group_inits
from gpuproof.linter.knowledge.frameworks.torch import is_test
from gpuproof.linter.project import Project
from gpuproof.linter.rule import Hits, Rule

rule = Rule("DS148", "fixed-rank", Severity.ERROR, needs=("init_process_group",))

_SAMPLERS = ("torch.utils.data.DistributedSampler", "torch.utils.data.distributed.DistributedSampler")


@rule.module
def check(module: Module, project: Project) -> Hits:
    starts = process_group_inits(module)
    if not starts or is_test(module):
        return
    yield from _samplers(module)
    if len(starts) != 1 or _is_conditional(module, starts[0]):
        return
    call = starts[0]
    rank, size = _number(call, "rank", 4), _number(call, "world_size", 3)
    if rank is not None and size is not None and size > 1:
        yield rule.hit(
            call.span,
            f"Every process joins as rank {rank} of {size}: they wait for the other ranks until the time limit.",
            remedy="Leave rank and world_size to the launcher: init_process_group(backend).",
        )
    elif rank is not None and size is None and _spawns(module):
        yield rule.hit(
            call.span,
            f"Every process that the script starts joins as rank {rank}: they wait for the other ranks until the time limit.",
            remedy="Pass the rank that spawn gives to its function.",
        )
    elif size == 1:
        for job in project.jobs_running(module):
            launchers, gpus, hosts = enabled_launchers(job), gpus_per_host(project, job), host_count(job)
            count = (gpus or 1) * (hosts or 1)
            if job.kind == "training" and launchers and count > 1 and "parameter_server" not in launchers:
                yield rule.hit(
                    call.span,
                    f"world_size is 1, but {job.title} starts {count} processes: each is a group of its own, and trains its own model.",
                    remedy="Leave rank and world_size to the launcher: init_process_group(backend).",
                )
                return


def _samplers(module: Module) -> Hits:
    """Samplers that give every process the share of one rank."""
    for call in calls_to(module, *_SAMPLERS):
        rank, replicas = _number(call, "rank", 2), _number(call, "num_replicas", 1)
        if rank is None or replicas == 1 or _is_conditional(module, call):
            continue
        yield rule.hit(
            call.span,
            f"Every process reads the share of rank {rank}: the rest of the data is never read.",
            remedy="Leave num_replicas and rank to the process group, or pass the rank of the process.",
        )


def _is_conditional(module: Module, call: Call) -> bool:
    return any(
        isinstance(ancestor, (ast.If, ast.IfExp, ast.Try)) and "__main__" not in module.text(ancestor)[:40]
        for ancestor in module.tree.ancestors(call.node)
    )


def _spawns(module: Module) -> bool:
    """Whether the file starts several processes."""
    calls = calls_to(module, "torch.multiprocessing.spawn", "torch.multiprocessing.start_processes")
    return any(
        call.argument("nprocs", 2).number != 1 and not call.argument("nprocs", 2).is_absent for call in calls
    )


def _number(call: Call, name: str, position: int) -> int | None:
    """The number that is written for an argument, or in a constant that it names."""
    node = call.module.origin(call.expression(name, position))
    match node:
        case ast.Constant(value=int(number)) if not isinstance(number, bool):
            return number
        case _:
            return None
