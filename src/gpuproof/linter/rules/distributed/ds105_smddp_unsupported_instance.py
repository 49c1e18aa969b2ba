"""SageMaker's data parallel library supports only a few instance types, and the SDK does not reject the others.

The list is that of SDK 2.257.7 (`fw_utils.SM_DATAPARALLEL_SUPPORTED_INSTANCE_TYPES`). On another type the library
fails when the script imports or starts it, after the instances have started and are billed. PyTorch's own launcher
works on every type. A type newer than the list is a warning.

Bad:

    from sagemaker.pytorch import PyTorch

    PyTorch(
        entry_point="train.py", role="role", framework_version="1.13", py_version="py39",
        instance_count=2, instance_type="ml.g4dn.12xlarge",  # <-
        distribution={"smdistributed": {"dataparallel": {"enabled": True}}},
    )

Good:

    from sagemaker.pytorch import PyTorch

    PyTorch(
        entry_point="train.py", role="role", framework_version="1.13", py_version="py39",
        instance_count=2, instance_type="ml.g4dn.12xlarge", distribution={"torch_distributed": {"enabled": True}},
    )

Quiet: a type in the list

    from sagemaker.pytorch import PyTorch

    PyTorch(
        entry_point="train.py", role="role", framework_version="1.13", py_version="py39",
        instance_count=2, instance_type="ml.p4d.24xlarge",
        distribution={"smdistributed": {"dataparallel": {"enabled": True}}},
    )

Quiet: turned off

    from sagemaker.pytorch import PyTorch

    PyTorch(
        entry_point="train.py", role="role", framework_version="1.13", py_version="py39",
        instance_count=2, instance_type="ml.g4dn.12xlarge",
        distribution={"smdistributed": {"dataparallel": {"enabled": False}}},
    )
"""

from functools import cache
from pathlib import Path

from gpuproof.findings import Severity
from gpuproof.linter.jobs.definition import JobDefinition
from gpuproof.linter.knowledge.aws.instances import find_instance
from gpuproof.linter.knowledge.distribution.launchers import enabled_launchers
from gpuproof.linter.project import Project
from gpuproof.linter.rule import Hits, Rule, lowered
from gpuproof.util.csv_table import read_rows

rule = Rule("DS105", "smddp-unsupported-instance", Severity.ERROR)


@rule.job
def check(job: JobDefinition, project: Project) -> Hits:
    if "smdistributed.dataparallel" not in (enabled_launchers(job) or ()):
        return
    instance = find_instance(project, job.instance_type)
    supported = _supported()
    if instance is None or instance.name in supported:
        return
    gpu = project.catalogue.gpu(instance.gpu_model) if instance.gpu_model else None
    # Later releases of the library may support newer types of the P family.
    is_newer = gpu is not None and (gpu.compute_capability or (0, 0)) >= (9, 0)
    sure = job.instance_type.is_known and not is_newer
    yield rule.hit(
        job.where(job.instance_type),
        f"smdistributed.dataparallel supports {', '.join(supported)}, not `{instance.name}`.",
        remedy='Use distribution={"torch_distributed": {"enabled": True}} with DistributedDataParallel over NCCL.',
        severity=rule.severity if sure else lowered(rule.severity),
    )


@cache
def _supported() -> tuple[str, ...]:
    path = Path(__file__).parents[2] / "data" / "smddp_instances.csv"
    return tuple(row["instance_type"] for row in read_rows(path))
