"""Two launchers are enabled, but the SDK only uses one: `pytorchddp` takes precedence over `torch_distributed`.

The settings of the other launcher are silently ignored.
Source: SDK 2.257.7, `PyTorch._pytorch_distribution_configuration`, which checks one key after the other.

Bad:

    from sagemaker.pytorch import PyTorch

    PyTorch(
        entry_point="train.py", role="role", framework_version="2.3", py_version="py311",
        instance_count=2, instance_type="ml.p4d.24xlarge",
        distribution={"pytorchddp": {"enabled": True}, "torch_distributed": {"enabled": True}},  # <-
    )

Good:

    from sagemaker.pytorch import PyTorch

    PyTorch(
        entry_point="train.py", role="role", framework_version="2.3", py_version="py311",
        instance_count=2, instance_type="ml.p4d.24xlarge", distribution={"torch_distributed": {"enabled": True}},
    )

Quiet: one of them is off

    from sagemaker.pytorch import PyTorch

    PyTorch(
        entry_point="train.py", role="role", framework_version="2.3", py_version="py311",
        instance_count=2, instance_type="ml.p4d.24xlarge",
        distribution={"pytorchddp": {"enabled": False}, "torch_distributed": {"enabled": True}},
    )

Quiet: the model parallel library is started by MPI

    from sagemaker.pytorch import PyTorch

    PyTorch(
        entry_point="train.py", role="role", framework_version="1.13", py_version="py39",
        instance_count=2, instance_type="ml.p4d.24xlarge",
        distribution={"smdistributed": {"modelparallel": {"enabled": True}}, "mpi": {"enabled": True}},
    )
"""

from gpuproof.findings import Severity
from gpuproof.linter.jobs.definition import JobDefinition
from gpuproof.linter.knowledge.distribution.launchers import enabled_launchers
from gpuproof.linter.project import Project
from gpuproof.linter.rule import Hits, Rule

rule = Rule("DS112", "two-launchers", Severity.WARNING)


@rule.job
def check(job: JobDefinition, _: Project) -> Hits:
    started = enabled_launchers(job) or ()
    if job.source != "sagemaker-v2" or not {"pytorchddp", "torch_distributed"} <= set(started):
        return
    yield rule.hit(
        job.where(job.distribution),
        "`pytorchddp` and `torch_distributed` are both enabled: the SDK uses `pytorchddp` and ignores the other.",
        remedy="Keep only torch_distributed, which starts torchrun.",
    )
