"""MPI starts another number of processes on each host than it has GPUs.

Fewer leave GPUs idle and billed; more put two processes on one GPU, which share its memory, and NCCL refuses a GPU that
it sees twice. One process for each GPU is what Horovod and SageMaker's libraries expect.

Bad:

    from sagemaker.tensorflow import TensorFlow

    TensorFlow(
        entry_point="train.py", role="role", framework_version="2.11", py_version="py39",
        instance_count=2, instance_type="ml.g5.12xlarge",
        distribution={"mpi": {"enabled": True, "processes_per_host": 8}},  # <-
    )

Fixed:

    from sagemaker.tensorflow import TensorFlow

    TensorFlow(
        entry_point="train.py", role="role", framework_version="2.11", py_version="py39",
        instance_count=2, instance_type="ml.g5.12xlarge",
        distribution={"mpi": {"enabled": True, "processes_per_host": 4}},
    )

Good:

    from sagemaker.tensorflow import TensorFlow

    TensorFlow(
        entry_point="train.py", role="role", framework_version="2.11", py_version="py39",
        instance_count=2, instance_type="ml.g5.12xlarge",
        distribution={"mpi": {"enabled": True, "processes_per_host": 4}},
    )

Quiet: ranks on CPUs may be as many as one likes

    from sagemaker.tensorflow import TensorFlow

    TensorFlow(
        entry_point="train.py", role="role", framework_version="2.11", py_version="py39",
        instance_count=2, instance_type="ml.c5.9xlarge",
        distribution={"mpi": {"enabled": True, "processes_per_host": 8}},
    )

Quiet: MPI is off

    from sagemaker.tensorflow import TensorFlow

    TensorFlow(
        entry_point="train.py", role="role", framework_version="2.11", py_version="py39",
        instance_count=2, instance_type="ml.g5.12xlarge",
        distribution={"mpi": {"enabled": False, "processes_per_host": 8}},
    )
"""

from gpuproof.check.jobs.definition import JobDefinition
from gpuproof.check.knowledge.instance_references import replace_text
from gpuproof.check.knowledge.launchers import launchers, part
from gpuproof.check.project import Project
from gpuproof.check.rule import Fix, Hits, Rule, lowered
from gpuproof.findings import Severity
from gpuproof.util.humanize import pluralize

rule = Rule("DS116", "processes-per-host", Severity.WARNING)


@rule.job
def check(job: JobDefinition, project: Project) -> Hits:
    if job.source != "sagemaker-v2" or "mpi" not in (launchers(job) or ()):
        return
    written = part(job, "mpi", "processes_per_host")
    instance, number = project.instance(job.instance_type), written.number
    if instance is None or not instance.gpu_count or number is None or number == instance.gpu_count:
        return
    gpus = pluralize(instance.gpu_count, "GPU")
    idle = instance.gpu_count - int(number)
    what = f"{idle} are idle" if idle > 0 else "several processes share one"
    edits = replace_text(written, str(number), str(instance.gpu_count))
    sure = written.is_known and job.instance_type.is_known
    yield rule.hit(
        job.where(written, job.distribution),
        f"MPI starts {number} processes on each `{instance.name}`, which has {gpus}: {what}.",
        remedy=f'Write "processes_per_host": {instance.gpu_count}.',
        severity=rule.severity if sure else lowered(rule.severity),
        fix=Fix(f"Start {instance.gpu_count}", edits, safe=True) if edits and sure else None,
    )
