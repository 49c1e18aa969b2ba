"""The script needs more memory than the GPU of its instance type has.

The job starts, loads its data, and ends with "CUDA out of memory" in one of its first steps, after the start of the instance and the
download have been paid for. `gpuproof check --plan` runs the script of each training job in a process of its own, on this
machine and without a GPU, as `gpuproof plan` does, and compares what it needs with what processes can have on that GPU,
which is less than its nominal size. It is a warning if the estimate fits and the upper end of its range does not, or if arguments of the
script are only known by default.

Bad:

    # file: launch.py
    from sagemaker.pytorch import PyTorch

    PyTorch(
        entry_point="train.py", role="role", framework_version="2.3", py_version="py311",
        instance_count=1, instance_type="ml.g4dn.xlarge", hyperparameters={"batch-size": 128},  # <-
    )
    # file: train.py
    import argparse

    import torch
    from torch.utils.data import DataLoader, Dataset

    class Tokens(Dataset):
        def __len__(self):
            return 100_000

        def __getitem__(self, index):
            return torch.zeros(512, dtype=torch.long)

    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=8)
    args = parser.parse_args()
    model = torch.nn.Sequential(torch.nn.Embedding(32_000, 1024), torch.nn.Linear(1024, 32_000)).cuda()
    optimizer = torch.optim.AdamW(model.parameters())
    for tokens in DataLoader(Tokens(), batch_size=args.batch_size):
        tokens = tokens.cuda()
        loss = torch.nn.functional.cross_entropy(model(tokens).flatten(0, 1), tokens.flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

Good: a batch that fits

    # file: launch.py
    from sagemaker.pytorch import PyTorch

    PyTorch(
        entry_point="train.py", role="role", framework_version="2.3", py_version="py311",
        instance_count=1, instance_type="ml.g4dn.xlarge", hyperparameters={"batch-size": 16},
    )
    # file: train.py
    import argparse
    import os

    import torch
    from torch.utils.data import DataLoader, Dataset

    class Tokens(Dataset):
        def __len__(self):
            return 100_000

        def __getitem__(self, index):
            return torch.zeros(512, dtype=torch.long)

    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=8)
    args = parser.parse_args()
    model = torch.nn.Sequential(torch.nn.Embedding(32_000, 1024), torch.nn.Linear(1024, 32_000)).cuda()
    optimizer = torch.optim.AdamW(model.parameters())
    for tokens in DataLoader(Tokens(), batch_size=args.batch_size, num_workers=4, pin_memory=True):
        tokens = tokens.cuda()
        loss = torch.nn.functional.cross_entropy(model(tokens).flatten(0, 1), tokens.flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    torch.save(model.state_dict(), os.path.join(os.environ["SM_MODEL_DIR"], "model.pt"))

Quiet: an argument that is not known here

    # file: launch.py
    import sys

    from sagemaker.pytorch import PyTorch

    PyTorch(
        entry_point="train.py", role="role", framework_version="2.3", py_version="py311",
        instance_count=1, instance_type="ml.g4dn.xlarge", hyperparameters={"batch-size": sys.argv[1]},
    )
    # file: train.py
    import torch

    model = torch.nn.Linear(80_000, 80_000).cuda()
"""

from gpuproof.findings import Severity
from gpuproof.linter.jobs.definition import JobDefinition
from gpuproof.linter.jobs.memory_plan import MemoryPlan, NotPlanned
from gpuproof.linter.project import Project
from gpuproof.linter.rule import Hits, Rule, lowered
from gpuproof.util.humanize import format_bytes, format_usd

rule = Rule("MEM101", "out-of-gpu-memory", Severity.ERROR, when="plan")


@rule.job
def check(job: JobDefinition, project: Project) -> Hits:
    try:
        plan = project.plan_memory(job)
    except NotPlanned:
        return
    if plan is None or plan.fit.fit == "fits":
        return
    severity = rule.severity if plan.fit.fit == "does-not-fit" else Severity.WARNING
    yield rule.hit(
        job.where(job.instance_type),
        _message(job, plan),
        remedy=_remedy(plan),
        evidence=(
            f"{format_bytes(plan.required.low)} to {format_bytes(plan.required.high)} (80 % interval)",
        ),
        severity=severity if plan.certain and job.instance_type.is_known else lowered(severity),
    )


def _message(job: JobDefinition, plan: MemoryPlan) -> str:
    subject = f"`{job.script_title}`"
    if plan.batch_size is not None:
        subject = f"Batch size {plan.batch_size:,} of {subject}"
    verb = "does" if plan.fit.fit == "does-not-fit" else "may"
    return (
        f"{subject} {verb} not fit: it needs about {format_bytes(plan.required.value)} on each GPU, and the {plan.gpu} "
        f"of `{job.instance_type.text}` has {format_bytes(plan.fit.usable)}."
    )


def _remedy(plan: MemoryPlan) -> str:
    ways: list[str] = []
    if plan.largest_batch is not None:
        ways.append(f"a batch size of at most {plan.largest_batch:,} on each GPU")
    if plan.alternative is not None and plan.usd_per_hour is not None:
        ways.append(
            f"{plan.alternative} ({format_usd(plan.usd_per_hour)} an hour), on which it fits and costs least"
        )
    shown = f"`{plan.command}` shows what else helps."
    return f"Use {', or '.join(ways)}. {shown}" if ways else shown
