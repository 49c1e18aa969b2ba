"""The backend does not match the job's hardware: Gloo copies GPU gradients through the host, NCCL requires GPUs.

PyTorch recommends NCCL for GPUs and Gloo for CPUs. On GPUs, Gloo copies every gradient to the host and back; on a CPU
instance, NCCL fails at the start.
Source: https://docs.pytorch.org/docs/stable/distributed.html, "Which backend to use?".

Bad:

    # file: launch.py
    from sagemaker.pytorch import PyTorch

    PyTorch(
        entry_point="train.py", role="role", framework_version="2.3", py_version="py311", instance_count=2,
        instance_type="ml.p4d.24xlarge", distribution={"torch_distributed": {"enabled": True}},
    )
    # file: train.py
    import torch
    import torch.distributed as dist

    dist.init_process_group("gloo")  # <-
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(8, 1).cuda())

Fixed:

    # file: launch.py
    from sagemaker.pytorch import PyTorch

    PyTorch(
        entry_point="train.py", role="role", framework_version="2.3", py_version="py311", instance_count=2,
        instance_type="ml.p4d.24xlarge", distribution={"torch_distributed": {"enabled": True}},
    )
    # file: train.py
    import torch
    import torch.distributed as dist

    dist.init_process_group("nccl")
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(8, 1).cuda())

Bad: the GPU of each process is in the script

    import os
    import torch
    import torch.distributed as dist
    from torch.nn.parallel import DistributedDataParallel

    dist.init_process_group("gloo")  # <-
    local_rank = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(local_rank)
    model = DistributedDataParallel(torch.nn.Linear(8, 1).cuda(), device_ids=[local_rank])

Good:

    # file: launch.py
    from sagemaker.pytorch import PyTorch

    PyTorch(
        entry_point="train.py", role="role", framework_version="2.3", py_version="py311", instance_count=2,
        instance_type="ml.p4d.24xlarge", distribution={"torch_distributed": {"enabled": True}},
    )
    # file: train.py
    import torch
    import torch.distributed as dist

    dist.init_process_group("nccl" if torch.cuda.is_available() else "gloo")

Quiet: Gloo on CPUs

    # file: launch.py
    from sagemaker.pytorch import PyTorch

    PyTorch(entry_point="train.py", role="role", instance_count=2, instance_type="ml.c5.9xlarge")
    # file: train.py
    import torch
    import torch.distributed as dist

    dist.init_process_group("gloo")
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(8, 1))

Quiet: Gloo for host tensors in addition to NCCL

    # file: launch.py
    from sagemaker.pytorch import PyTorch

    PyTorch(entry_point="train.py", role="role", instance_count=2, instance_type="ml.p4d.24xlarge")
    # file: train.py
    import torch
    import torch.distributed as dist

    dist.init_process_group("gloo")
    gpus = dist.new_group(backend="nccl")
    model = torch.nn.Linear(8, 1).cuda()
"""

import ast
import re

from gpuproof.findings import Severity
from gpuproof.linter.analysis.call import Call, all_calls, calls_named
from gpuproof.linter.analysis.local_imports import local_modules
from gpuproof.linter.analysis.module import Module
from gpuproof.linter.analysis.usage import script_uses
from gpuproof.linter.knowledge.aws.instance_references import replace_text
from gpuproof.linter.knowledge.aws.instances import gpus_per_host
from gpuproof.linter.knowledge.devices.device_use import touches_device
from gpuproof.linter.knowledge.distribution.ranks import process_group_inits
from gpuproof.linter.knowledge.frameworks.torch import is_test
from gpuproof.linter.project import Project
from gpuproof.linter.rule import Hits, Rule
from gpuproof.linter.source.edit import Fix

_OFFLOAD = re.compile(r"offload(?!_to_cpu)", re.IGNORECASE)
"""Calls and arguments that keep parameters on the host; `offload_to_cpu` only moves what is saved."""

_PORTABLE = re.compile(r"(^|\.)(is_available|device_type|no_cuda|use_cuda)$")

rule = Rule("DS113", "backend-mismatch", Severity.WARNING, needs=("init_process_group",))


@rule.module
def check(module: Module, project: Project) -> Hits:
    jobs = [job for job in project.jobs_running(module) if job.kind == "training"]
    gpus = [gpus_per_host(project, job) if job.instance_type.is_known else None for job in jobs]
    starts = process_group_inits(module)
    if not jobs and len(starts) == 1:
        yield from _without_job(module, starts[0])
    if not jobs or None in gpus or len(starts) != 1:
        return
    backend = starts[0].argument("backend", 0)
    if not backend.is_known or _is_chosen(module, starts[0]):
        return
    name = jobs[0].instance_type.text
    if backend.text == "gloo" and all(gpus) and touches_device(module) and not _needs_gloo(module):
        other = "nccl"
        message = f"gloo copies the gradients of `{name}`'s GPUs through host memory"
    elif backend.text == "nccl" and not any(gpus):
        other = "gloo"
        message = f"nccl requires GPUs, but `{name}` has none"
    else:
        return
    edits = replace_text(backend, str(backend.text), other)
    yield rule.hit(
        starts[0].span,
        f"{message} ({jobs[0].title}).",
        remedy=f'Use init_process_group("{other}").',
        fix=Fix(f"Use {other}", edits, safe=True) if edits else None,
    )


def _without_job(module: Module, start: Call) -> Hits:
    """The finding for a script that certainly trains on GPUs: DDP gets one, and nothing asks whether there is any."""
    backend = start.argument("backend", 0)
    if not backend.is_known or backend.text != "gloo" or _is_chosen(module, start) or _needs_gloo(module):
        return
    if script_uses(module, _PORTABLE, "call", "attribute") or is_test(module):
        return
    wraps = [
        call
        for home in local_modules(module)
        for call in calls_named(home, "DistributedDataParallel", "DDP")
        if not call.argument("device_ids", 1).is_unset and call.argument("device_ids", 1).value != ()
    ]
    if not wraps:
        return
    edits = replace_text(backend, "gloo", "nccl")
    yield rule.hit(
        start.span,
        "gloo copies the gradients of GPUs through host memory, and DistributedDataParallel gets a GPU here.",
        remedy='Use init_process_group("nccl").',
        fix=Fix("Use nccl", edits) if edits else None,
    )


def _is_chosen(module: Module, start: Call) -> bool:
    """Whether the process group starts under a test for NCCL."""
    tests = [
        ancestor.test
        for ancestor in module.tree.ancestors(start.node)
        if isinstance(ancestor, (ast.If, ast.IfExp))
    ]
    checks = calls_named(module, "is_nccl_available")
    return any(module.tree.is_within(call.node, test) for call in checks for test in tests)


def _needs_gloo(module: Module) -> bool:
    """Whether Gloo is for tensors on the host: another group has NCCL, or parameters are offloaded."""
    for call in calls_named(module, "new_group", "new_subgroups"):
        backend = call.argument("backend", 2 if call.method == "new_group" else 4)
        if backend.is_unknown or "nccl" in (backend.text or ""):
            return True
    for call in all_calls(module):
        for name in call.keywords:
            value = call.argument(name)
            if _OFFLOAD.search(name) and not (value.is_known and not value.value):
                return True
        if _OFFLOAD.search(call.method):
            flag = call.argument("offload_params", 0)
            if not (flag.is_known and flag.flag is False):
                return True
    return False
