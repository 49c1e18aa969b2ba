"""`MPI()` of the SageMaker SDK v3 starts all ranks on the first of several hosts.

The SDK's program passes `process_count_per_node`, or the number of GPUs of one host, to mpirun as the number of all ranks. mpirun fills the
first host with them; the other hosts wait, billed, until the job ends. Nothing fails. The options of mpirun can spread the
ranks: the rule does not report jobs whose options place ranks, or are unknown.
Source: mpi_driver.py of https://pypi.org/project/sagemaker-train/ (up to 1.27).

Bad:

    from sagemaker.train import ModelTrainer
    from sagemaker.train.configs import Compute, SourceCode
    from sagemaker.train.distributed import MPI

    ModelTrainer(
        source_code=SourceCode(source_dir="src", entry_script="train.py"),
        compute=Compute(instance_type="ml.g5.12xlarge", instance_count=2),
        distributed=MPI(process_count_per_node=4),  # <-
    )

Bad:

    from sagemaker.train import ModelTrainer
    from sagemaker.train.configs import Compute, SourceCode
    from sagemaker.train.distributed import MPI

    ModelTrainer(
        source_code=SourceCode(source_dir="src", entry_script="train.py"),
        compute=Compute(instance_type="ml.g5.xlarge", instance_count=4),
        distributed=MPI(mpi_additional_options=["-x", "NCCL_DEBUG=INFO"]),  # <-
    )

Good:

    # file: launch.py
    from sagemaker.train import ModelTrainer
    from sagemaker.train.configs import Compute, SourceCode
    from sagemaker.train.distributed import MPI

    ModelTrainer(
        source_code=SourceCode(source_dir="src", entry_script="train.py"),
        compute=Compute(instance_type="ml.g5.12xlarge", instance_count=2),
        distributed=MPI(process_count_per_node=8, mpi_additional_options=["--map-by", "ppr:4:node"]),
    )
    # file: src/train.py
    from mpi4py import MPI

    total = MPI.COMM_WORLD.allreduce(1)

Quiet: one host

    from sagemaker.train import ModelTrainer
    from sagemaker.train.configs import Compute, SourceCode
    from sagemaker.train.distributed import MPI

    ModelTrainer(
        source_code=SourceCode(source_dir="src", entry_script="train.py"),
        compute=Compute(instance_type="ml.g5.12xlarge"),
        distributed=MPI(process_count_per_node=4),
    )

Quiet: a second `-np` replaces the first one in Open MPI 4

    from sagemaker.train import ModelTrainer
    from sagemaker.train.configs import Compute, SourceCode
    from sagemaker.train.distributed import MPI

    ModelTrainer(
        source_code=SourceCode(source_dir="src", entry_script="train.py"),
        compute=Compute(instance_type="ml.g5.12xlarge", instance_count=2),
        distributed=MPI(process_count_per_node=4, mpi_additional_options=["-np", "8"]),
    )

Quiet: unknown options

    import json
    from sagemaker.train import ModelTrainer
    from sagemaker.train.configs import Compute, SourceCode
    from sagemaker.train.distributed import MPI

    with open("options.json") as file:
        options = json.load(file)
    ModelTrainer(
        source_code=SourceCode(source_dir="src", entry_script="train.py"),
        compute=Compute(instance_type="ml.g5.12xlarge", instance_count=2),
        distributed=MPI(process_count_per_node=4, mpi_additional_options=options),
    )
"""

import re

from gpuproof.findings import Severity
from gpuproof.linter.analysis.values import Value
from gpuproof.linter.jobs.definition import JobDefinition
from gpuproof.linter.knowledge.aws.instances import find_instance
from gpuproof.linter.knowledge.distribution.launchers import counts_all_ranks, format_spread_ranks, host_count
from gpuproof.linter.project import Project
from gpuproof.linter.rule import Hits, Rule, lowered
from gpuproof.util.humanize import pluralize

rule = Rule("DS122", "mpi-ranks-on-first-host", Severity.ERROR)

# Options of mpirun for the number of ranks and where they run, and the parameters with the same effect.
_PLACING = re.compile(
    r"^--?(np?|N|c|H|host|hostfile|default-hostfile|machinefile|rankfile|rf|map-by|by\w+|n?per\w+|ppr|nolocal|app)\b|rmaps"
)


@rule.job
def check(job: JobDefinition, project: Project) -> Hits:
    count = host_count(job)
    if count is None or count < 2 or not counts_all_ranks(job):
        return
    options = job.distribution.at("MPI", "mpi_additional_options")
    if _may_place(options):
        return
    written = job.distribution.at("MPI", "process_count_per_node")
    if written.is_unknown:
        return
    each = _ranks_each(job, project, written)
    ranks = "all ranks" if each is None else f"{pluralize(each, 'rank')} in total, all"
    others = "other host waits" if count == 2 else f"other {count - 1} hosts wait"
    yield rule.hit(
        job.where(written, job.distribution),
        f"MPI starts {ranks} on the first of {count} hosts: the {others}, billed.",
        remedy=f"Write {format_spread_ranks(count, each or 1)}.",
        severity=rule.severity if job.instance_count.is_known else lowered(rule.severity),
    )


def _ranks_each(job: JobDefinition, project: Project, written: Value) -> int | None:
    """The ranks that are meant for each host: as written, or one per GPU; None if unknown."""
    if written.number:
        return int(written.number)
    instance = find_instance(project, job.instance_type)
    return None if instance is None else instance.gpu_count or 1


def _may_place(options: Value) -> bool:
    """Whether options of mpirun may decide on which hosts ranks run."""
    if options.is_absent or (options.is_known and options.value is None):
        return False
    words = options.items
    if words is None:
        return True
    return any(word.text is None or _PLACING.search(word.text) for word in words)
