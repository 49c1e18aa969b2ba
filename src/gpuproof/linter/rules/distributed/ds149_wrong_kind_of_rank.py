"""The rank among all processes is used where the rank on the host belongs, or the reverse: it fails on the second host.

A GPU is chosen by the local rank: on the second host of 4 GPUs, `cuda:5` does not exist, "invalid device ordinal". The process group
and the DistributedSampler count all processes: with the local rank, two processes claim the same rank, and the group never forms,
or hosts read the same share. With one host, both ranks are equal, and nothing shows.

Bad:

    import os
    import torch
    import torch.distributed as dist

    dist.init_process_group("nccl")
    torch.cuda.set_device(int(os.environ["RANK"]))  # <-
    model = torch.nn.Linear(8, 1).cuda()

Bad: Horovod

    import horovod.torch as hvd
    import torch

    hvd.init()
    torch.cuda.set_device(hvd.rank())  # <-

Bad: a job with two hosts

    # file: launch.py
    from sagemaker.pytorch import PyTorch

    PyTorch(
        entry_point="train.py", role="role", framework_version="2.3", py_version="py311", instance_count=2,
        instance_type="ml.g5.12xlarge", distribution={"torch_distributed": {"enabled": True}},
    ).fit()
    # file: train.py
    import torch
    import torch.distributed as dist

    dist.init_process_group("nccl")
    rank = dist.get_rank()
    device = torch.device(f"cuda:{rank}")  # <-
    model = torch.nn.Linear(8, 1).to(device)

Good:

    import os
    import torch
    import torch.distributed as dist

    dist.init_process_group("nccl")
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    model = torch.nn.Linear(8, 1).cuda()

Quiet: one host

    # file: launch.py
    from sagemaker.pytorch import PyTorch

    PyTorch(
        entry_point="train.py", role="role", framework_version="2.3", py_version="py311", instance_count=1,
        instance_type="ml.g5.12xlarge", distribution={"torch_distributed": {"enabled": True}},
    ).fit()
    # file: train.py
    import os
    import torch
    import torch.distributed as dist

    dist.init_process_group("nccl")
    torch.cuda.set_device(int(os.environ["RANK"]))

Quiet: divided by the GPUs of a host

    import os
    import torch

    rank = int(os.environ["RANK"])
    torch.cuda.set_device(rank % torch.cuda.device_count())

Quiet: of mp.spawn, which numbers the processes of a host

    import torch
    import torch.distributed as dist

    def worker(rank, size):
        dist.init_process_group("nccl", init_method="tcp://127.0.0.1:29500", rank=rank, world_size=size)
        torch.cuda.set_device(rank)

    torch.multiprocessing.spawn(worker, args=(4,), nprocs=4)
"""

import ast
from collections.abc import Iterator
from typing import Literal

from gpuproof.findings import Severity
from gpuproof.linter.analysis.call import Call, calls_named
from gpuproof.linter.analysis.module import Module
from gpuproof.linter.analysis.syntax_index import callee_name
from gpuproof.linter.knowledge.distribution.horovod import is_library_name
from gpuproof.linter.knowledge.distribution.launchers import host_count
from gpuproof.linter.project import Project
from gpuproof.linter.rule import Hits, Rule

rule = Rule("DS149", "wrong-kind-of-rank", Severity.WARNING, needs=("RANK", "PROCID", "rank("))

Kind = Literal["global", "local", "group"]
"""`group`: the rank of the process group, which on one host is the local one as well."""

_GLOBAL = frozenset({"RANK", "SLURM_PROCID", "OMPI_COMM_WORLD_RANK", "PMI_RANK"})
_LOCAL = frozenset({"LOCAL_RANK", "SLURM_LOCALID", "OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID"})


@rule.module
def check(module: Module, project: Project) -> Hits:
    jobs = [job for job in project.jobs_running(module) if job.source != "command"]
    hosts = [host_count(job) for job in jobs]
    if jobs and all(count == 1 for count in hosts):
        return
    several = next((job for job, count in zip(jobs, hosts, strict=True) if (count or 1) > 1), None)
    severity = Severity.ERROR if several is not None else None
    where = f" ({several.title})" if several is not None else ""
    for node in _gpus(module):
        kind = _kind(module, node)
        if kind == "global" or (kind == "group" and several is not None):
            yield rule.hit(
                module.span(node),
                f"`{module.text(node)}` is the rank among all processes, used as the number of a GPU: on a second host{where} that GPU "
                "does not exist.",
                remedy=f"Use {_local_rank(module, node)}.",
                severity=severity,
            )
            return
    for call, node in _ranks(module) if several is not None else ():
        if _kind(module, node) == "local":
            yield rule.hit(
                module.span(node),
                f"`{module.text(node)}` is the rank on the host, which the processes of the other hosts have as well{where}.",
                remedy='Use the rank among all processes: int(os.environ["RANK"])'
                + (", or leave it to the launcher." if call.method == "init_process_group" else "."),
                severity=severity,
            )
            return


def _gpus(module: Module) -> Iterator[ast.expr]:
    """The expressions that number a GPU."""
    for call in calls_named(module, "set_device"):
        node = call.expression("device", 0)
        if node is not None and (call.name or "").startswith("torch."):
            yield from _numbers(node)
    for call in calls_named(module, "device"):
        if call.name == "torch.device":
            for node in call.node.args:
                yield from _numbers(node)
    for call in calls_named(module, "cuda", "to"):
        node = call.expression("device", 0)
        if node is not None and call.receiver is not None and call.name is None:
            yield from _numbers(node)
    for call in calls_named(module, "DistributedDataParallel", "DDP"):
        match call.expression("device_ids", 1):
            case ast.List(elts=[node]):
                yield from _numbers(node)
            case _:
                pass
    for subscript in module.nodes(ast.Subscript):
        # `gpus[hvd.rank()]`
        if isinstance(subscript.value, ast.Name) and subscript.value.id in ("gpus", "physical_devices"):
            yield from _numbers(subscript.slice)


def _numbers(node: ast.expr) -> Iterator[ast.expr]:
    match node:
        case ast.JoinedStr(values=[ast.Constant(value="cuda:"), ast.FormattedValue(value=value)]):
            yield value
        case ast.Name() | ast.Call() | ast.Subscript():
            yield node
        case _:
            pass


def _ranks(module: Module) -> Iterator[tuple[Call, ast.expr]]:
    """The expressions that are the rank among all processes."""
    for name, position in (("init_process_group", 4), ("DistributedSampler", 2)):
        for call in calls_named(module, name):
            node = call.expression("rank", position)
            if node is not None:
                yield call, node


def _kind(module: Module, node: ast.expr) -> Kind | None:
    made = module.origin(node)
    match made:
        case ast.Call(func=ast.Name(id="int"), args=[inner]):
            return _kind(module, inner)
        case ast.Call(args=[ast.Constant(value=str(name)), *_]) if callee_name(made) in ("get", "getenv"):
            return "global" if name in _GLOBAL else "local" if name in _LOCAL else None
        case ast.Subscript(value=value, slice=ast.Constant(value=str(name))):
            if module.qualified(value) != "os.environ":
                return None
            return "global" if name in _GLOBAL else "local" if name in _LOCAL else None
        case ast.Call(func=function):
            name = module.qualified(function)
            if is_library_name(name) and name is not None:
                last = name.rpartition(".")[2]
                return "global" if last == "rank" else "local" if last == "local_rank" else None
            return "group" if name == "torch.distributed.get_rank" else None
        case _:
            return None


def _local_rank(module: Module, node: ast.expr) -> str:
    made = module.origin(node)
    name = module.qualified(made.func) if isinstance(made, ast.Call) else None
    if is_library_name(name):
        return "hvd.local_rank()"
    return 'int(os.environ["LOCAL_RANK"])'
