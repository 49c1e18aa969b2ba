"""The job's launcher starts one process per GPU, and the script starts its own processes in each of them.

torchrun and MPI start the script several times. If it then calls `torch.multiprocessing.spawn` or runs `torchrun` itself,
four GPUs get sixteen processes: they compete for the same GPUs and the same port, and the job fails or trains several models.
The rule does not report scripts that start processes only under a condition.
Source: https://docs.pytorch.org/docs/stable/elastic/run.html, "Transitioning from torch.distributed.launch to torchrun".

Bad:

    # file: launch.py
    from sagemaker.pytorch import PyTorch

    PyTorch(
        entry_point="train.py", role="role", framework_version="2.3", py_version="py311",
        instance_count=1, instance_type="ml.g5.12xlarge",
        distribution={"torch_distributed": {"enabled": True}},  # <-
    )
    # file: train.py
    import torch
    import torch.multiprocessing as mp

    def worker(rank, size):
        torch.distributed.init_process_group("nccl", rank=rank, world_size=size)

    if __name__ == "__main__":
        size = torch.cuda.device_count()
        mp.spawn(worker, args=(size,), nprocs=size)

Bad:

    # file: gpuproof.yaml
    entry_point: start.py
    instance_type: ml.g5.12xlarge
    distribution: torchrun  # <-
    # file: start.py
    import subprocess

    subprocess.run(["torchrun", "--nproc_per_node", "4", "train.py"], check=True)

Good:

    # file: gpuproof.yaml
    entry_point: train.py
    instance_type: ml.g5.12xlarge
    distribution: none
    # file: train.py
    import torch
    import torch.multiprocessing as mp

    def worker(rank, size):
        torch.distributed.init_process_group("nccl", rank=rank, world_size=size)

    if __name__ == "__main__":
        size = torch.cuda.device_count()
        mp.spawn(worker, args=(size,), nprocs=size)

Quiet: it spawns only where no launcher has started it

    # file: gpuproof.yaml
    entry_point: train.py
    instance_type: ml.g5.12xlarge
    distribution: torchrun
    # file: train.py
    import os
    import torch
    import torch.multiprocessing as mp

    def worker(rank):
        torch.distributed.init_process_group("nccl")

    if "RANK" in os.environ:
        worker(0)
    else:
        mp.spawn(worker, nprocs=torch.cuda.device_count())

Quiet: processes that load data

    # file: gpuproof.yaml
    entry_point: train.py
    instance_type: ml.g5.12xlarge
    distribution: torchrun
    # file: train.py
    import multiprocessing
    import subprocess
    import torch

    subprocess.run(["nvidia-smi"])
    multiprocessing.Process(target=print).start()
    torch.distributed.init_process_group("nccl")
"""

import re
from collections.abc import Iterator

from gpuproof.findings import Severity
from gpuproof.linter.analysis.call import Call, calls_to
from gpuproof.linter.analysis.module import Module
from gpuproof.linter.jobs.definition import JobDefinition
from gpuproof.linter.knowledge.aws.instances import gpus_per_host
from gpuproof.linter.knowledge.distribution.launchers import enabled_launchers
from gpuproof.linter.knowledge.distribution.ranks import always_runs
from gpuproof.linter.project import Project
from gpuproof.linter.rule import Hits, Rule

rule = Rule("DS120", "script-starts-own-processes", Severity.ERROR, when="link")

_SPAWNS = ("torch.multiprocessing.spawn", "torch.multiprocessing.start_processes")
_RUNS = (
    *(f"subprocess.{name}" for name in ("run", "call", "check_call", "check_output", "Popen")),
    *("os.system", "os.execvp", "os.execlp"),
)
_LAUNCHERS = {"torch_distributed": "torchrun", "mpi": "MPI"}
_COMMAND = re.compile(r"(\S*/)?(torchrun|mpirun|mpiexec|horovodrun)(\s|$)")


@rule.job
def check(job: JobDefinition, project: Project) -> Hits:
    started, script = enabled_launchers(job) or (), job.script
    if job.kind != "training" or script is None or len(started) != 1 or started[0] not in _LAUNCHERS:
        return
    gpus = gpus_per_host(project, job)
    if gpus is not None and gpus < 2:
        return
    starts = next((start for start in _starts(script) if always_runs(script, start.node)), None)
    if starts is None:
        return
    launcher = _LAUNCHERS[started[0]]
    count = f"{gpus} processes" if gpus else "one process per GPU"
    yield rule.hit(
        job.where(job.distribution),
        f"{launcher} starts {count} on each host, and `{job.script_title}`, line {starts.span.line}, starts more in "
        f"each of them ({starts.name}).",
        remedy="Remove the job's distribution, so that the script starts all processes; or remove the call and read "
        "RANK, LOCAL_RANK and WORLD_SIZE, which torchrun sets."
        if launcher == "torchrun"
        else "Remove the job's distribution, or the call.",
    )


def _starts(script: Module) -> Iterator[Call]:
    """The calls that start one process per GPU."""
    yield from calls_to(script, *_SPAWNS)
    for call in calls_to(script, *_RUNS):
        command = call.argument("args", 0)
        first = command.at(0) if command.items is not None else command
        if first.text is not None and _COMMAND.match(first.text):
            yield call
