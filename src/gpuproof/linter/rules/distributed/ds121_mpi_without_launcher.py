"""The script computes with MPI or Horovod, but the job starts it without MPI.

Without mpirun, each process is rank 0 of 1: `allreduce` returns its own values, every host trains by itself on the same data,
and all write the same model. Nothing fails. The rule does not report scripts that use MPI under a condition only, that start
mpirun themselves, and images that may.
Sources: https://mpi4py.readthedocs.io/en/stable/tutorial.html, https://horovod.readthedocs.io/en/stable/running_include.html.

Bad:

    # file: launch.py
    from sagemaker.pytorch import PyTorch

    PyTorch(
        entry_point="train.py", role="role", framework_version="2.3", py_version="py311",
        instance_count=2, instance_type="ml.g5.xlarge",  # <-
    )
    # file: train.py
    import horovod.torch as hvd
    import torch

    hvd.init()
    model = torch.nn.Linear(8, 1).cuda()
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.1))

Bad:

    # file: gpuproof.yaml
    entry_point: train.py
    instance_type: ml.g5.xlarge
    instance_count: 4
    distribution: torchrun  # <-
    # file: train.py
    from mpi4py import MPI

    total = MPI.COMM_WORLD.allreduce(1)

Good:

    # file: launch.py
    from sagemaker.pytorch import PyTorch

    PyTorch(
        entry_point="train.py", role="role", framework_version="2.3", py_version="py311",
        instance_count=2, instance_type="ml.g5.xlarge", distribution={"mpi": {"enabled": True}},
    )
    # file: train.py
    import horovod.torch as hvd

    hvd.init()

Good:

    # file: gpuproof.yaml
    entry_point: train.py
    instance_type: ml.g5.xlarge
    instance_count: 4
    distribution: mpi
    # file: train.py
    from mpi4py import MPI

    total = MPI.COMM_WORLD.allreduce(1)

Quiet: the script also runs without MPI

    # file: gpuproof.yaml
    entry_point: train.py
    instance_type: ml.g5.xlarge
    instance_count: 2
    # file: train.py
    import os

    if "OMPI_COMM_WORLD_SIZE" in os.environ:
        from mpi4py import MPI

        print(MPI.COMM_WORLD.rank)

Quiet: the script starts mpirun

    # file: gpuproof.yaml
    entry_point: train.py
    instance_type: ml.g5.xlarge
    instance_count: 2
    # file: train.py
    import subprocess
    import sys
    import horovod.torch as hvd

    if len(sys.argv) > 1:
        subprocess.run(["mpirun", "python", "train.py"])
    hvd.init()

Quiet: one host with one GPU

    # file: gpuproof.yaml
    entry_point: train.py
    instance_type: ml.g5.xlarge
    # file: train.py
    from mpi4py import MPI

    total = MPI.COMM_WORLD.allreduce(1)
"""

import re

from gpuproof.findings import Severity
from gpuproof.linter.analysis.module import Module
from gpuproof.linter.analysis.usage import find_uses, script_uses
from gpuproof.linter.jobs.definition import JobDefinition
from gpuproof.linter.knowledge.aws.instances import find_instance
from gpuproof.linter.knowledge.distribution.launchers import (
    enabled_launchers,
    format_distribution,
    format_spread_ranks,
    host_count,
)
from gpuproof.linter.knowledge.distribution.ranks import always_runs
from gpuproof.linter.knowledge.programs import starts_programs
from gpuproof.linter.project import Project
from gpuproof.linter.rule import Hits, Rule, lowered

rule = Rule("DS121", "mpi-without-launcher", Severity.ERROR, when="link")

_HOROVOD = re.compile(r"^horovod\.[\w.]+\.init$")
_MPI = re.compile(r"^mpi4py\.MPI\.COMM_WORLD\b")
# Started without mpirun: by itself, by another program, or as processes that MPI creates.
_STARTS = re.compile(r"^(multiprocessing\.(?!cpu_count|\w*start_method)|horovod\.(run|ray|spark)|pty|sh)\b")
_SPAWNS = re.compile(r"(^|\.)(Spawn|Spawn_multiple|Connect|Accept)$")
_OTHERS = {"torch_distributed": "torchrun", "parameter_server": "parameter_server"}


@rule.job
def check(job: JobDefinition, project: Project) -> Hits:
    count, script, started = host_count(job), job.script, enabled_launchers(job)
    if job.kind != "training" or script is None or count is None or count < 2 or started is None:
        return
    if not job.argument("distributions").is_unset or {*started} - {*_OTHERS}:
        return
    # Another image may start MPI by itself; GPUproof and the SDK v3 start the script in any image.
    if job.source not in ("gpuproof", "sagemaker-v3") and not job.image.is_unset:
        return
    if (job.instance_type.text or "").startswith("local"):
        return
    library = _library(script)
    if (
        library is None
        or script_uses(script, _STARTS, "call", "name")
        or script_uses(script, _SPAWNS, "call")
        or starts_programs(script)
    ):
        return
    how = f"by {_OTHERS[started[0]]}" if started else "without a launcher"
    yield rule.hit(
        job.where(job.distribution, job.instance_count) if started else job.where(job.instance_count),
        f"`{job.script_title}` uses {library}, but {count} hosts start it {how}: each process is rank 0 of 1 and trains "
        "by itself.",
        remedy=f"Write {_form(job, project, count)}.",
        severity=rule.severity if job.instance_count.is_known else lowered(rule.severity),
    )


def _form(job: JobDefinition, project: Project, count: int) -> str:
    if job.source == "sagemaker-v3":
        instance = find_instance(project, job.instance_type)
        return format_spread_ranks(count, (instance.gpu_count if instance is not None else 0) or 1)
    return format_distribution(job, "mpi")


def _library(script: Module) -> str | None:
    """The library through which a script certainly uses MPI."""
    for use in find_uses(script, "call", "name"):
        if _HOROVOD.search(use.text) and always_runs(script, use.node):
            return "Horovod"
        if _MPI.search(use.text) and always_runs(script, use.node):
            return "mpi4py"
    return None
