"""The memory of a job could not be planned.

`gpuproof check --plan` was asked whether the job fits into its GPU's memory, and has no answer: the script failed while it was traced,
its data is not on this machine, or its arguments are only known when the job is started. The message says which.

Bad:

    # file: launch.py
    import sys

    from sagemaker.pytorch import PyTorch

    PyTorch(
        entry_point="train.py", role="role", framework_version="2.3", py_version="py311",
        instance_count=1, instance_type="ml.g4dn.xlarge", hyperparameters={"batch-size": sys.argv[1]},  # <-
    )
    # file: train.py
    import torch

    model = torch.nn.Linear(8, 8).cuda()

Bad: the script fails here

    # file: launch.py
    from sagemaker.pytorch import PyTorch

    PyTorch(
        entry_point="train.py", role="role", framework_version="2.3", py_version="py311",
        instance_count=1, instance_type="ml.g4dn.xlarge",  # <-
    )
    # file: train.py
    import torch

    model = torch.nn.Linear(8, 8).cuda()
    model(torch.zeros(4, 9).cuda())

Good:

    # file: launch.py
    from sagemaker.pytorch import PyTorch

    PyTorch(
        entry_point="train.py", role="role", framework_version="2.3", py_version="py311",
        instance_count=1, instance_type="ml.g4dn.xlarge",
    )
    # file: train.py
    import os

    import torch

    model = torch.nn.Linear(8, 8).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(10):
        loss = model(torch.zeros(4, 8).cuda()).sum()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    torch.save(model.state_dict(), os.path.join(os.environ["SM_MODEL_DIR"], "model.pt"))

Quiet: an instance without a GPU

    # file: launch.py
    from sagemaker.pytorch import PyTorch

    PyTorch(
        entry_point="train.py", role="role", framework_version="2.3", py_version="py311",
        instance_count=1, instance_type="ml.m5.xlarge",
    )
    # file: train.py
    import torch

    model = torch.nn.Linear(8, 8)
"""

from gpuproof.findings import Severity
from gpuproof.linter.jobs.definition import JobDefinition
from gpuproof.linter.jobs.memory_plan import NotPlanned
from gpuproof.linter.project import Project
from gpuproof.linter.rule import Hits, Rule

rule = Rule("MEM102", "memory-not-planned", Severity.NOTE, when="plan")


@rule.job
def check(job: JobDefinition, project: Project) -> Hits:
    try:
        project.plan_memory(job)
    except NotPlanned as error:
        yield rule.hit(
            job.where(job.instance_type),
            f"Whether `{job.script_title}` fits is not known: {error.reason}",
            remedy=error.remedy,
        )
