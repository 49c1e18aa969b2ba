"""srun or mpirun starts torchrun several times on each node, and each of them starts a process for every GPU.

torchrun, `accelerate launch` and deepspeed start the processes of a node themselves, so that one of them per node is enough. With
`--ntasks-per-node=4` there are 4 on each node: they compete for one port ("address already in use"), or 16 processes share 4 GPUs,
and NCCL rejects a GPU that is used twice. Either srun starts the tasks, and the script reads SLURM_PROCID, or torchrun does,
with one task per node.
Source: https://docs.pytorch.org/docs/stable/elastic/run.html.

Bad:

    # file: job.sbatch
    #!/bin/bash
    #SBATCH --nodes=1
    #SBATCH --ntasks-per-node=4  # <-
    #SBATCH --gres=gpu:4
    srun torchrun --standalone --nproc_per_node=4 train.py
    # file: train.py
    import torch.distributed as dist

    dist.init_process_group("nccl")

Bad: mpirun

    # file: run.sh
    mpirun -np 8 torchrun --nproc_per_node=8 train.py  # <-
    # file: train.py
    import torch.distributed as dist

    dist.init_process_group("nccl")

Good:

    # file: job.sbatch
    #!/bin/bash
    #SBATCH --nodes=1
    #SBATCH --ntasks-per-node=1
    #SBATCH --gres=gpu:4
    srun torchrun --standalone --nproc_per_node=4 train.py
    # file: train.py
    import torch.distributed as dist

    dist.init_process_group("nccl")

Quiet: one process in each

    # file: job.sbatch
    #!/bin/bash
    #SBATCH --nodes=1
    #SBATCH --ntasks-per-node=4
    #SBATCH --gres=gpu:4
    srun torchrun --nnodes=4 --nproc_per_node=1 --rdzv_backend=c10d --rdzv_endpoint=localhost:29500 train.py
    # file: train.py
    import torch.distributed as dist

    dist.init_process_group("nccl")

Quiet: one task for this step

    # file: job.sbatch
    #!/bin/bash
    #SBATCH --nodes=1
    #SBATCH --ntasks-per-node=4
    #SBATCH --gres=gpu:4
    srun --ntasks-per-node=1 --ntasks=1 torchrun --standalone --nproc_per_node=4 train.py
    # file: train.py
    import torch.distributed as dist

    dist.init_process_group("nccl")
"""

from gpuproof.findings import Severity
from gpuproof.linter.jobs.definition import JobDefinition
from gpuproof.linter.knowledge.aws.instances import gpus_per_host
from gpuproof.linter.knowledge.distribution.tasks import command_span, tasks_per_host
from gpuproof.linter.project import Project
from gpuproof.linter.rule import Hits, Rule

rule = Rule("DS152", "launcher-in-every-task", Severity.ERROR, when="link")

_INNER = {"torchrun": "torchrun", "accelerate": "accelerate launch", "deepspeed": "deepspeed"}
_OUTER = {"srun": "srun", "mpi": "mpirun"}


@rule.job
def check(job: JobDefinition, project: Project) -> Hits:
    start = job.start
    if job.kind != "training" or start is None or start.launcher is None or start.is_conditional:
        return
    names = start.launchers
    if len(names) < 2 or names[-1] not in _INNER or names[-2] not in _OUTER:
        return
    tasks, each = tasks_per_host(job), start.launcher.processes
    if each is None and start.launcher.is_known:
        each = gpus_per_host(project, job)
    if tasks.number is None or tasks.number < 2 or each == 1:
        return
    inner, outer = _INNER[names[-1]], _OUTER[names[-2]]
    total = f": {int(tasks.number) * each} processes" if each is not None else ""
    gpus = gpus_per_host(project, job)
    yield rule.hit(
        tasks.span or command_span(job),
        f"{outer} starts {inner} {int(tasks.number)} times on each node, and each starts {each or 'all'} processes{total}"
        f"{f' on {gpus} GPUs' if gpus else ''}.",
        remedy=f"Start {inner} once on each node: --ntasks-per-node=1."
        if outer == "srun"
        else f"Start {inner} without {outer}, or the script with {outer} alone.",
    )
