"""A Slurm script asks for several tasks or nodes, and starts its program without srun: it runs once, on the first node.

The commands of a batch script run on the first node of the allocation, once. Only srun, or mpirun, starts the tasks. The other
nodes are allocated, counted against the account, and idle; a script that expects one process per task finds itself alone, or
waits for the others. The rule does not report scripts that reach the nodes with ssh, pdsh, Ray or the like.
Source: https://slurm.schedmd.com/sbatch.html.

Bad:

    # file: job.sbatch
    #!/bin/bash
    #SBATCH --nodes=2
    #SBATCH --ntasks-per-node=4
    #SBATCH --gres=gpu:4
    python train.py  # <-
    # file: train.py
    import horovod.torch as hvd
    import torch

    hvd.init()

Bad: tasks of one node

    # file: job.sbatch
    #!/bin/bash
    #SBATCH --nodes=1
    #SBATCH --ntasks-per-node=4
    #SBATCH --gres=gpu:4
    python train.py  # <-
    # file: train.py
    import os
    import torch.distributed as dist

    dist.init_process_group("nccl", rank=int(os.environ["SLURM_PROCID"]), world_size=int(os.environ["SLURM_NTASKS"]))

Bad: torchrun on the first node only

    # file: job.sbatch
    #!/bin/bash
    #SBATCH --nodes=2
    #SBATCH --gres=gpu:4
    torchrun --nnodes=2 --nproc_per_node=4 --rdzv_backend=c10d --rdzv_endpoint=$(hostname):29500 train.py  # <-
    # file: train.py
    import torch.distributed as dist

    dist.init_process_group("nccl")

Good:

    # file: job.sbatch
    #!/bin/bash
    #SBATCH --nodes=2
    #SBATCH --ntasks-per-node=4
    #SBATCH --gres=gpu:4
    srun python train.py
    # file: train.py
    import horovod.torch as hvd
    import torch

    hvd.init()
    torch.cuda.set_device(hvd.local_rank())

Quiet: mpirun

    # file: job.sbatch
    #!/bin/bash
    #SBATCH --nodes=2
    #SBATCH --ntasks-per-node=4
    mpirun -np 8 python train.py
    # file: train.py
    import horovod.torch as hvd

    hvd.init()

Quiet: one task, and torchrun starts the processes

    # file: job.sbatch
    #!/bin/bash
    #SBATCH --nodes=1
    #SBATCH --ntasks=1
    #SBATCH --gres=gpu:4
    torchrun --standalone --nproc_per_node=4 train.py
    # file: train.py
    import torch.distributed as dist

    dist.init_process_group("nccl")

Quiet: ssh to the nodes

    # file: job.sbatch
    #!/bin/bash
    #SBATCH --nodes=2
    #SBATCH --gres=gpu:4
    for host in $(scontrol show hostnames); do
        ssh $host "cd $PWD && ./worker.sh" &
    done
    torchrun --nnodes=2 --nproc_per_node=4 --rdzv_backend=c10d --rdzv_endpoint=$(hostname):29500 train.py
    # file: train.py
    import torch.distributed as dist

    dist.init_process_group("nccl")
"""

import re

from gpuproof.findings import Severity
from gpuproof.linter.analysis.local_imports import local_modules
from gpuproof.linter.analysis.values import ABSENT
from gpuproof.linter.jobs.commands.shell import Shell, commands
from gpuproof.linter.jobs.definition import JobDefinition
from gpuproof.linter.knowledge.distribution.entries import joins_group
from gpuproof.linter.knowledge.distribution.horovod import library_inits
from gpuproof.linter.knowledge.distribution.launchers import host_count
from gpuproof.linter.knowledge.distribution.tasks import command_span, runs_on_first_host_only
from gpuproof.linter.knowledge.programs import starts_programs
from gpuproof.linter.project import Project
from gpuproof.linter.rule import Hits, Rule

rule = Rule("DS154", "slurm-first-node-only", Severity.ERROR, when="link")

_REACHES = re.compile(
    r"^(srun|mpirun|mpiexec|horovodrun|ssh|pdsh|clush|parallel|ray|ibrun|aprun|jsrun|singularity|apptainer|enroot|docker|deepspeed"
    r"|dask-\w+|orterun|prun)$"
)


@rule.job
def check(job: JobDefinition, _: Project) -> Hits:
    if job.kind != "training" or job.script is None or not runs_on_first_host_only(job):
        return
    if _may_reach_nodes(job) or starts_programs(job.script):
        return
    nodes, name = host_count(job) or 1, job.script_title
    if nodes > 1:
        yield rule.hit(
            command_span(job),
            f"{nodes} nodes are allocated, but `{name}` is started without srun: it runs on the first one, and "
            f"{nodes - 1} {'is' if nodes == 2 else 'are'} idle.",
            remedy="Start it with srun, or ask for one node.",
        )
        return
    tasks = next(
        (job.arguments[key] for key in ("ntasks-per-node", "ntasks") if key in job.arguments), ABSENT
    )
    if job.start is None or job.start.launcher is not None or not (tasks.text or "").isdigit():
        return
    if int(tasks.text or 0) > 1 and _is_for_ranks(job):
        yield rule.hit(
            command_span(job),
            f"{tasks.text} tasks are allocated, but `{name}` is started without srun: it runs once.",
            remedy="Start it with srun.",
        )


def _may_reach_nodes(job: JobDefinition) -> bool:
    """Whether any command of the script may start programs on the other nodes."""
    text = job.command.text or ""
    return any(
        _REACHES.match(word.rpartition("/")[2])
        for command in commands(text, Shell())
        for word in command.words
    )


def _is_for_ranks(job: JobDefinition) -> bool:
    script = job.script
    if script is None:
        return False
    return joins_group(script) or any(library_inits(module) for module in local_modules(script))
