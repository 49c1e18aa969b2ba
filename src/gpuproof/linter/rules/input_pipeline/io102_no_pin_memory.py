"""A DataLoader without `pin_memory=True` in a GPU job: each copy to the GPU goes through pageable memory and blocks.

Pinned memory is copied faster, and `x.to(device, non_blocking=True)` can overlap with computation. The gain depends on the
size of the batches, so the rule is strict. Source: PyTorch's performance tuning guide.

Bad:

    # file: launch.py
    from sagemaker.pytorch import PyTorch

    PyTorch(entry_point="train.py", role="r", instance_count=1, instance_type="ml.g4dn.xlarge").fit()
    # file: train.py
    from torch.utils.data import DataLoader

    loader = DataLoader(dataset, batch_size=64, num_workers=4)  # <-
    for x, y in loader:
        model(x.to("cuda")).sum().backward()

Good:

    # file: train.py
    from torch.utils.data import DataLoader

    loader = DataLoader(dataset, batch_size=64, num_workers=4, pin_memory=True)
    for x, y in loader:
        model(x.to("cuda")).sum().backward()

Quiet: no GPU job runs it

    from torch.utils.data import DataLoader

    loader = DataLoader(dataset, batch_size=64, num_workers=4)
    for x, y in loader:
        model(x.to("cuda")).sum().backward()
"""

from gpuproof.findings import Severity
from gpuproof.linter.analysis.call import calls_to
from gpuproof.linter.analysis.module import Module
from gpuproof.linter.fixing.edits import add_keyword
from gpuproof.linter.knowledge.aws.instances import gpus_per_host, largest_job
from gpuproof.linter.project import Project
from gpuproof.linter.rule import Hits, Rule
from gpuproof.linter.source.edit import Fix

rule = Rule("IO102", "no-pin-memory", Severity.NOTE, when="strict", needs=("DataLoader",))


@rule.module
def check(module: Module, project: Project) -> Hits:
    job = largest_job(project, module)
    if job is None or not gpus_per_host(project, job):
        return
    for call in calls_to(module, "torch.utils.data.DataLoader"):
        if call.argument("pin_memory", 7).is_absent:
            yield rule.hit(
                call.span,
                f"`DataLoader` without pin_memory: copies to the GPU block and are slower ({job.title}).",
                remedy="Pass pin_memory=True, and copy with non_blocking=True.",
                fix=Fix("Pass pin_memory=True", (add_keyword(call, "pin_memory=True"),), safe=True),
            )
