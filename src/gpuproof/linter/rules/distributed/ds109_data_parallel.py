"""`nn.DataParallel` drives all GPUs from one process: it copies the model in every step, and Python's lock serializes the work.

PyTorch recommends DistributedDataParallel even on one machine: one process per GPU, gradients reduced while the backward pass
runs. `DataParallel` scatters each batch, replicates the model and gathers the outputs on GPU 0, whose memory fills first; a second
host is out of reach. The rule is strict, because a script with two GPUs may live with that.
Source: https://docs.pytorch.org/docs/stable/generated/torch.nn.DataParallel.html.

Bad:

    import torch

    model = torch.nn.DataParallel(torch.nn.Linear(8, 1)).cuda()  # <-
    for x in torch.rand(64, 8):
        model(x.cuda()).sum().backward()

Good:

    import os
    import torch
    import torch.distributed as dist
    from torch.nn.parallel import DistributedDataParallel

    dist.init_process_group("nccl")
    local_rank = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(local_rank)
    model = DistributedDataParallel(torch.nn.Linear(8, 1).cuda(), device_ids=[local_rank])
    for x in torch.rand(64, 8):
        model(x.cuda()).sum().backward()

Quiet: nothing is trained

    import torch

    model = torch.nn.DataParallel(torch.nn.Linear(8, 1)).cuda()
    with torch.no_grad():
        print(model(torch.ones(8).cuda()))

Quiet: one GPU

    import torch

    model = torch.nn.DataParallel(torch.nn.Linear(8, 1), device_ids=[0]).cuda()
    model(torch.ones(8).cuda()).sum().backward()
"""

from gpuproof.findings import Severity
from gpuproof.linter.analysis.call import calls_to
from gpuproof.linter.analysis.module import Module
from gpuproof.linter.knowledge.aws.instances import gpus_per_host
from gpuproof.linter.knowledge.distribution.entries import computes_gradients, scripts_with
from gpuproof.linter.project import Project
from gpuproof.linter.rule import Hits, Rule

rule = Rule("DS109", "data-parallel", Severity.NOTE, when="strict", needs=("DataParallel",))


@rule.module
def check(module: Module, project: Project) -> Hits:
    calls = calls_to(module, "torch.nn.DataParallel", "torch.nn.parallel.DataParallel")
    if not calls or not any(map(computes_gradients, scripts_with(module))):
        return
    gpus = [gpus_per_host(project, job) for job in project.jobs_running(module)]
    if gpus and all(count is not None and count < 2 for count in gpus):
        return
    for call in calls:
        devices = call.argument("device_ids", 1)
        if devices.items is not None and len(devices.items) < 2:
            continue
        yield rule.hit(
            call.span,
            "DataParallel drives all GPUs from one process: it copies the model in every step, and GPU 0 gathers the outputs.",
            remedy="Start one process per GPU with torchrun, and use DistributedDataParallel.",
        )
