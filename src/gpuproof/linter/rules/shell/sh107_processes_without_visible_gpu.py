"""A launcher starts more processes than `CUDA_VISIBLE_DEVICES` shows GPUs.

`CUDA_VISIBLE_DEVICES=0 torchrun --nproc_per_node=4 train.py` has four ranks and one GPU: `torch.cuda.set_device(1)` fails with
"invalid device ordinal", or all ranks share the GPU, which NCCL refuses ("Duplicate GPU detected").
Source: https://docs.nvidia.com/cuda/cuda-c-programming-guide/#cuda-environment-variables.

Bad:

    # file: run.sh
    #!/bin/bash
    export CUDA_VISIBLE_DEVICES=0
    torchrun --standalone --nproc_per_node=4 train.py  # <-
    # file: train.py
    import os
    import torch
    import torch.distributed as dist

    dist.init_process_group("nccl")
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))

Good:

    # file: run.sh
    #!/bin/bash
    export CUDA_VISIBLE_DEVICES=0,1,2,3
    torchrun --standalone --nproc_per_node=4 train.py
    # file: train.py
    import os
    import torch
    import torch.distributed as dist

    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl")
    dist.destroy_process_group()

Quiet: processes on the CPU, and a list that is only known later

    # file: run.sh
    #!/bin/bash
    CUDA_VISIBLE_DEVICES=0 torchrun --standalone --nproc_per_node=4 preprocess.py
    CUDA_VISIBLE_DEVICES=$GPUS torchrun --standalone --nproc_per_node=4 train.py
    # file: preprocess.py
    import torch.distributed as dist

    dist.init_process_group("gloo")
    # file: train.py
    import torch.distributed as dist

    dist.init_process_group("nccl")
"""

from gpuproof.findings import Severity
from gpuproof.linter.jobs.definition import JobDefinition
from gpuproof.linter.knowledge.distribution.required_gpu import line_that_needs_gpu
from gpuproof.linter.project import Project
from gpuproof.linter.rule import Hits, Rule
from gpuproof.util.humanize import pluralize

rule = Rule("SH107", "processes-without-visible-gpu", Severity.ERROR, when="link")

_VARIABLE = "CUDA_VISIBLE_DEVICES"


@rule.job
def check(job: JobDefinition, _: Project) -> Hits:
    start = job.start
    if start is None or start.launcher is None or start.is_conditional or job.script is None:
        return
    processes, shown = start.launcher.processes, start.environment.get(_VARIABLE)
    if shown is None:
        given = job.environment.at(_VARIABLE)
        shown = str(given.value) if given.is_known else None
    if (
        processes is None
        or not start.launcher.is_known
        or shown is None
        or not shown.replace(",", "").isdigit()
    ):
        return
    visible = len([name for name in shown.split(",") if name])
    if processes <= visible or not line_that_needs_gpu(job.script):
        return
    span = job.span.unit.span(start.line) if job.source in ("command", "slurm") else job.where(job.command)
    yield rule.hit(
        span,
        f'{start.launcher.name} starts {processes} processes, but {_VARIABLE} is "{shown}", which is {pluralize(visible, "GPU")}: '
        "the others have none.",
        remedy=f"Set {_VARIABLE} to {processes} GPUs, or {start.launcher.option} to {visible}.",
    )
