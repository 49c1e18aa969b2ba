"""The model is wrapped in DistributedDataParallel on the CPU, with the number of a GPU: the constructor fails.

DDP does not move the model. With `device_ids`, "DistributedDataParallel device_ids and output_device arguments only work with
single-device GPU modules"; without it, NCCL rejects parameters on the CPU. The model goes to its GPU first.
Source: https://docs.pytorch.org/docs/stable/generated/torch.nn.parallel.DistributedDataParallel.html.

Bad:

    import os
    import torch
    import torch.distributed as dist
    from torch.nn.parallel import DistributedDataParallel

    dist.init_process_group("nccl")
    local_rank = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(local_rank)
    model = DistributedDataParallel(torch.nn.Linear(8, 1), device_ids=[local_rank])  # <-
    model(torch.ones(8)).sum().backward()

Good:

    import os
    import torch
    import torch.distributed as dist
    from torch.nn.parallel import DistributedDataParallel

    dist.init_process_group("nccl")
    local_rank = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(local_rank)
    model = DistributedDataParallel(torch.nn.Linear(8, 1).to(local_rank), device_ids=[local_rank])
    model(torch.ones(8).to(local_rank)).sum().backward()

Quiet: on CPUs

    import torch
    import torch.distributed as dist
    from torch.nn.parallel import DistributedDataParallel

    dist.init_process_group("gloo")
    model = DistributedDataParallel(torch.nn.Linear(8, 1))

Quiet: moved in a statement of its own

    import torch
    import torch.distributed as dist
    from torch.nn.parallel import DistributedDataParallel

    dist.init_process_group("nccl")
    model = torch.nn.Linear(8, 1)
    model.cuda()
    model = DistributedDataParallel(model, device_ids=[torch.cuda.current_device()])
"""

import re

from gpuproof.findings import Severity
from gpuproof.linter.analysis.call import calls_to
from gpuproof.linter.analysis.module import Module
from gpuproof.linter.analysis.types import TypeKind, type_of
from gpuproof.linter.analysis.usage import script_uses
from gpuproof.linter.knowledge.frameworks.torch import is_test
from gpuproof.linter.project import Project
from gpuproof.linter.rule import Hits, Rule

rule = Rule("DS157", "ddp-of-unmoved-model", Severity.ERROR, needs=("DistributedDataParallel",))

_DEFAULT = re.compile(r"(^|\.)set_default_(device|tensor_type)$")


@rule.module
def check(module: Module, _: Project) -> Hits:
    if is_test(module) or script_uses(module, _DEFAULT, "call"):
        return
    wraps = calls_to(
        module,
        "torch.nn.parallel.DistributedDataParallel",
        "torch.nn.parallel.distributed.DistributedDataParallel",
    )
    for wrap in wraps:
        ids, model = wrap.expression("device_ids", 1), wrap.expression("module", 0)
        value = wrap.argument("device_ids", 1)
        if ids is None or model is None or value.is_unset or len(value.options) > 1:
            continue
        found = type_of(module, model)
        if found.kind is TypeKind.MODULE and found.device == "cpu":
            yield rule.hit(
                wrap.span,
                f"`{module.text(model)}` is on the CPU when DDP gets device_ids={module.text(ids)}: the constructor fails.",
                remedy="Move it first: model.to(local_rank).",
            )
