"""More DataLoader workers than the instance has vCPUs: they compete with each other and with the training process.

`num_workers=64` on 4 vCPUs starts 64 processes, each with its own copy of the dataset's Python objects: memory fills up, start-up takes
minutes at every epoch, and no batch is ready earlier. PyTorch warns about it in the job's log. Workers are counted for each
process: with one process for each GPU, all of them start their own.

Bad:

    # file: launch.py
    from sagemaker.pytorch import PyTorch

    PyTorch(entry_point="train.py", role="r", instance_count=1, instance_type="ml.g4dn.xlarge").fit()
    # file: train.py
    from torch.utils.data import DataLoader
    from torchvision.datasets import ImageFolder

    loader = DataLoader(ImageFolder("train"), batch_size=64, num_workers=64)  # <-

Good:

    # file: train.py
    from torch.utils.data import DataLoader
    from torchvision.datasets import ImageFolder

    loader = DataLoader(ImageFolder("train"), batch_size=64, num_workers=4)

Quiet: as many as there are

    # file: launch.py
    from sagemaker.pytorch import PyTorch

    PyTorch(entry_point="train.py", role="r", instance_count=1, instance_type="ml.g4dn.xlarge").fit()
    # file: train.py
    import os
    from torch.utils.data import DataLoader
    from torchvision.datasets import ImageFolder

    few = DataLoader(ImageFolder("train"), batch_size=64, num_workers=4)
    all_of_them = DataLoader(ImageFolder("train"), batch_size=64, num_workers=os.cpu_count())
"""

from gpuproof.findings import Severity
from gpuproof.linter.analysis.call import calls_to
from gpuproof.linter.analysis.module import Module
from gpuproof.linter.jobs.definition import JobDefinition
from gpuproof.linter.knowledge.aws.instances import find_instance, gpus_per_host
from gpuproof.linter.knowledge.distribution.launchers import processes_per_host
from gpuproof.linter.project import Project
from gpuproof.linter.rule import Hits, Rule, lowered

rule = Rule("IO106", "too-many-workers", Severity.WARNING, when="link", needs=("num_workers",))


@rule.module
def check(module: Module, project: Project) -> Hits:
    jobs = [(job, vcpus) for job in project.jobs_running(module) if (vcpus := _vcpus(job, project))]
    if not jobs:
        return
    job, vcpus = min(jobs, key=lambda item: item[1])
    given = processes_per_host(job)
    processes = int(given.number) if given.is_known and given.number else 1
    # More processes than GPUs are another mistake.
    processes = min(processes, max(1, gpus_per_host(project, job) or processes))
    for call in calls_to(module, "torch.utils.data.DataLoader", "torch.utils.data.dataloader.DataLoader"):
        workers = call.argument("num_workers", 5)
        if not workers.is_sure or workers.number is None or workers.number * processes <= vcpus:
            continue
        each = f" in each of {processes} processes" if processes > 1 else ""
        fitting = max(1, vcpus // processes)
        yield rule.hit(
            call.span,
            f"{workers.number:g} worker processes{each}, but `{job.instance_type.text}` has {vcpus} vCPUs ({job.title}).",
            remedy=f"Pass num_workers={fitting} at most, or os.cpu_count().",
            severity=rule.severity if workers.is_known else lowered(rule.severity),
        )


def _vcpus(job: JobDefinition, project: Project) -> int | None:
    instance = find_instance(project, job.instance_type) if job.instance_type.is_known else None
    return instance.vcpus if instance is not None else None
