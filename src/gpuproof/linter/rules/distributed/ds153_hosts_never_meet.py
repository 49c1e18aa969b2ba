"""torchrun is told to wait for hosts that it cannot find: it stands still until its time limit, with all GPUs billed.

`torchrun --nnodes=2` needs an address where the hosts meet: `--rdzv_endpoint`, or `--master_addr` with a `--node_rank` of each host.
Without it, every host waits for the others at its own 127.0.0.1. A job with fewer instances than `--nnodes` waits as well, and with
the same `--node_rank` on all hosts only one of them is let in. `accelerate launch` has `--main_process_ip` and `--machine_rank`.
Source: https://docs.pytorch.org/docs/stable/elastic/run.html.

Bad: no address

    # file: job.sbatch
    #!/bin/bash
    #SBATCH --nodes=2
    #SBATCH --ntasks-per-node=1
    #SBATCH --gres=gpu:4
    srun torchrun --nnodes=2 --nproc_per_node=4 train.py  # <-
    # file: train.py
    import torch.distributed as dist

    dist.init_process_group("nccl")

Bad: more hosts than instances

    # file: launch.py
    from sagemaker.train import ModelTrainer
    from sagemaker.train.configs import Compute, SourceCode

    trainer = ModelTrainer(
        training_image="image",
        source_code=SourceCode(
            source_dir="src", command="torchrun --nnodes=2 --rdzv_backend=c10d --rdzv_endpoint=algo-1:29500 train.py"  # <-
        ),
        compute=Compute(instance_type="ml.p4d.24xlarge", instance_count=1),
    )
    # file: src/train.py
    import torch.distributed as dist

    dist.init_process_group("nccl")

Bad: every host is the first

    # file: job.sbatch
    #!/bin/bash
    #SBATCH --nodes=2
    #SBATCH --ntasks-per-node=1
    #SBATCH --gres=gpu:4
    srun torchrun --nnodes=2 --node_rank=0 --master_addr=$HEAD --nproc_per_node=4 train.py  # <-
    # file: train.py
    import torch.distributed as dist

    dist.init_process_group("nccl")

Good:

    # file: job.sbatch
    #!/bin/bash
    #SBATCH --nodes=2
    #SBATCH --ntasks-per-node=1
    #SBATCH --gres=gpu:4
    HEAD=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)
    srun torchrun --nnodes=2 --nproc_per_node=4 --rdzv_backend=c10d --rdzv_endpoint=$HEAD:29500 train.py
    # file: train.py
    import torch.distributed as dist

    dist.init_process_group("nccl")

Quiet: the rank of each host is a variable

    # file: run.sh
    torchrun --nnodes=2 --node_rank=$RANK --master_addr=$HEAD --nproc_per_node=4 train.py
    # file: train.py
    import torch.distributed as dist

    dist.init_process_group("nccl")

Quiet: typed on each host by hand

    # file: run.sh
    torchrun --nnodes=2 --node_rank=0 --master_addr=10.0.0.1 --nproc_per_node=4 train.py
    # file: train.py
    import torch.distributed as dist

    dist.init_process_group("nccl")
"""

from gpuproof.findings import Severity
from gpuproof.linter.jobs.commands.launchers import Launcher
from gpuproof.linter.jobs.commands.programs import Start
from gpuproof.linter.jobs.definition import JobDefinition
from gpuproof.linter.knowledge.distribution.launchers import host_count
from gpuproof.linter.knowledge.distribution.tasks import command_span
from gpuproof.linter.project import Project
from gpuproof.linter.rule import Hits, Rule

rule = Rule("DS153", "hosts-never-meet", Severity.ERROR, when="link")

_ADDRESSES = {
    "torchrun": ("rdzv_endpoint", "master_addr", "rdzv_backend", "rdzv_conf"),
    "accelerate": ("main_process_ip", "rdzv_endpoint", "config_file", "rdzv_backend"),
}
_RANKS = {"torchrun": "node_rank", "accelerate": "machine_rank"}
_HOSTS = {"torchrun": "--nnodes", "accelerate": "--num_machines"}
_VARIABLES = ("MASTER_ADDR", "PET_MASTER_ADDR", "PET_RDZV_ENDPOINT", "PET_NODE_RANK")


@rule.job
def check(job: JobDefinition, _: Project) -> Hits:
    start = job.start
    launcher = start.launcher if start is not None else None
    if job.kind != "training" or start is None or launcher is None or start.is_conditional:
        return
    if launcher.name not in _ADDRESSES or launcher.hosts is None or launcher.hosts < 2:
        return
    if "standalone" in launcher.options or "config_file" in launcher.options:
        return
    hosts = host_count(job) if job.source != "command" else None
    problem = _problem(job, start, launcher, hosts)
    if problem is None:
        return
    message, remedy = problem
    yield rule.hit(
        command_span(job), f"{_HOSTS[launcher.name]} is {launcher.hosts}, {message}.", remedy=remedy
    )


def _problem(
    job: JobDefinition, start: Start, launcher: Launcher, hosts: int | None
) -> tuple[str, str] | None:
    given = launcher.options
    wanted = launcher.hosts or 0
    if hosts is not None and hosts < wanted and job.instance_count.certainty != "default":
        return (
            f"but the job has {hosts} host{'s' if hosts > 1 else ''}: {launcher.name} waits for the others",
            f"Use {_HOSTS[launcher.name]}={hosts}, or as many hosts.",
        )
    if not any(name in given for name in _ADDRESSES[launcher.name]):
        if any(name in start.environment for name in _VARIABLES) or (
            hosts is None and job.source != "command"
        ):
            return None
        address = (
            "--rdzv_backend=c10d --rdzv_endpoint=HOST:29500"
            if launcher.name == "torchrun"
            else "--main_process_ip"
        )
        return (
            "but nothing names the host where they meet: each waits at its own 127.0.0.1",
            f"Add {address} of the first host.",
        )
    rank = given.get(_RANKS[launcher.name], "0" if launcher.name == "torchrun" else None)
    same = hosts is not None and rank is not None and rank.isdigit() and "rdzv_backend" not in given
    if same and "rdzv_endpoint" not in given:
        return (
            f"and every host has --{_RANKS[launcher.name]} {rank}: they wait for one that has another",
            f"Pass the number of the host: --{_RANKS[launcher.name]}=$SLURM_NODEID under srun.",
        )
    return None
