"""The script starts its processes itself, but nothing tells them where to meet: MASTER_ADDR or MASTER_PORT is missing.

`init_process_group(rank=..., world_size=...)` reads the address of rank 0 from the environment. torchrun and SageMaker's PyTorch images
set it; `mp.spawn` and srun do not: "environment variable MASTER_ADDR expected, but not set", in each process.
Source: https://docs.pytorch.org/docs/stable/distributed.html, "Environment variable initialization".

Bad:

    import torch
    import torch.distributed as dist

    def worker(rank, size):
        dist.init_process_group("nccl", rank=rank, world_size=size)  # <-
        torch.cuda.set_device(rank)

    if __name__ == "__main__":
        torch.multiprocessing.spawn(worker, args=(4,), nprocs=4)

Bad: the port is missing

    import os
    import torch
    import torch.distributed as dist

    def setup(rank, size):
        os.environ["MASTER_ADDR"] = "localhost"
        dist.init_process_group("nccl", rank=rank, world_size=size)  # <-

    def worker(rank, size):
        setup(rank, size)

    if __name__ == "__main__":
        torch.multiprocessing.spawn(worker, args=(4,), nprocs=4)

Good:

    import os
    import torch
    import torch.distributed as dist

    def worker(rank, size):
        os.environ["MASTER_ADDR"] = "localhost"
        os.environ["MASTER_PORT"] = "29500"
        dist.init_process_group("nccl", rank=rank, world_size=size)
        torch.cuda.set_device(rank)

    if __name__ == "__main__":
        torch.multiprocessing.spawn(worker, args=(4,), nprocs=4)

Quiet: in the address itself

    import torch
    import torch.distributed as dist

    def worker(rank, size):
        dist.init_process_group("nccl", init_method="tcp://127.0.0.1:29500", rank=rank, world_size=size)

    if __name__ == "__main__":
        torch.multiprocessing.spawn(worker, args=(4,), nprocs=4)

Quiet: the shell sets both

    # file: run.sh
    export MASTER_ADDR=localhost MASTER_PORT=29500
    python train.py
    # file: train.py
    import torch
    import torch.distributed as dist

    def worker(rank, size):
        dist.init_process_group("nccl", rank=rank, world_size=size)

    if __name__ == "__main__":
        torch.multiprocessing.spawn(worker, args=(4,), nprocs=4)
"""

import re

from gpuproof.findings import Severity
from gpuproof.linter.analysis.call import Call, calls_named, calls_to
from gpuproof.linter.analysis.local_imports import local_modules
from gpuproof.linter.analysis.module import Module
from gpuproof.linter.analysis.usage import script_uses
from gpuproof.linter.knowledge.distribution.entries import scripts_with
from gpuproof.linter.knowledge.distribution.ranks import process_group_inits, uses_distribution_library
from gpuproof.linter.knowledge.frameworks.torch import is_test
from gpuproof.linter.project import Project
from gpuproof.linter.rule import Hits, Rule

rule = Rule("DS151", "missing-master-address", Severity.ERROR, needs=("init_process_group",))

_ADDRESS, _PORT = "MASTER_ADDR", "MASTER_PORT"
_OTHERS = re.compile(r"load_dotenv|init_dist|environ\.update$")


@rule.module
def check(module: Module, project: Project) -> Hits:
    starts = [call for call in process_group_inits(module) if _reads_address(call)]
    if not starts or is_test(module):
        return
    scripts = scripts_with(module)
    spawning = [script for script in scripts if any(map(_spawns, local_modules(script)))]
    if not spawning:
        return
    for script in scripts:
        jobs = project.jobs_running(script)
        if any(job.has_contract or job.source == "container" for job in jobs):
            return
        given = {name for job in jobs if job.start is not None for name in job.start.environment}
        if given & {_ADDRESS, _PORT} or any(job.start is not None and job.start.launchers for job in jobs):
            return
        if uses_distribution_library(script) or script_uses(script, _OTHERS, "call"):
            return
    missing = [
        name
        for name in (_ADDRESS, _PORT)
        if not any(script_uses(script, re.compile(rf"^{name}$"), "string", "keyword") for script in scripts)
    ]
    if missing:
        yield rule.hit(
            starts[0].span,
            f"Nothing sets {' and '.join(missing)} for the processes that the script starts: init_process_group() fails in each.",
            remedy='Set os.environ["MASTER_ADDR"] = "localhost" and os.environ["MASTER_PORT"] = "29500" before.',
        )


def _reads_address(call: Call) -> bool:
    """Whether a group has ranks of its own, and its address from the environment."""
    method = call.argument("init_method", 1)
    return (
        (method.is_absent or (method.is_known and str(method.value).startswith("env://")))
        and not call.argument("rank", 4).is_absent
        and not call.argument("world_size", 3).is_absent
        and call.argument("store", 5).is_absent
        and not call.is_open
    )


def _spawns(module: Module) -> bool:
    return bool(
        calls_to(module, "torch.multiprocessing.spawn", "torch.multiprocessing.start_processes")
    ) or any((call.name or "").endswith("multiprocessing.Process") for call in calls_named(module, "Process"))
