"""The number of MPI processes per host differs from the number of GPUs.

Fewer processes leave GPUs idle and billed; more processes share a GPU and its memory, and NCCL rejects a GPU that is
used twice. Horovod and SageMaker's libraries expect one process per GPU.

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

Quiet: any number of ranks on CPUs

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
from gpuproof.check.knowledge.instances import find_instance
from gpuproof.check.knowledge.launchers import distribution_value, enabled_launchers
from gpuproof.check.project import Project
from gpuproof.check.rule import Hits, Rule, lowered
from gpuproof.check.source.edit import Fix
from gpuproof.findings import Severity
from gpuproof.util.humanize import pluralize

rule = Rule("DS116", "processes-per-host", Severity.WARNING)


@rule.job
def check(job: JobDefinition, project: Project) -> Hits:
    if job.source != "sagemaker-v2" or "mpi" not in (enabled_launchers(job) or ()):
        return
    setting = distribution_value(job, "mpi", "processes_per_host")
    instance, number = find_instance(project, job.instance_type), setting.number
    if instance is None or not instance.gpu_count or number is None or number == instance.gpu_count:
        return
    gpus = pluralize(instance.gpu_count, "GPU")
    idle = instance.gpu_count - int(number)
    what = f"{idle} are idle" if idle > 0 else "several processes share a GPU"
    edits = replace_text(setting, str(number), str(instance.gpu_count))
    sure = setting.is_known and job.instance_type.is_known
    yield rule.hit(
        job.where(setting, job.distribution),
        f"MPI starts {number} processes on each `{instance.name}`, which has {gpus}: {what}.",
        remedy=f'Write "processes_per_host": {instance.gpu_count}.',
        severity=rule.severity if sure else lowered(rule.severity),
        fix=Fix(f"Start {instance.gpu_count} processes per host", edits, safe=True)
        if edits and sure
        else None,
    )
