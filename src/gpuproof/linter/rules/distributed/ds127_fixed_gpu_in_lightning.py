"""A LightningModule moves tensors to a GPU with a fixed number, and the Trainer uses several.

Lightning starts one process per GPU and moves the module and its batches to the GPU of the process. `x.cuda(0)` or
`x.to("cuda:0")` in a step moves them away from it: every process but the first fails with "Expected all tensors to be
on the same device", or all of them fill the memory of the first GPU. The rule reports modules that a job with several
GPUs or a Trainer with several devices runs.

Bad:

    import lightning as L
    import torch

    class Net(L.LightningModule):
        def __init__(self):
            super().__init__()
            self.layer = torch.nn.Linear(8, 1)

        def training_step(self, batch, index):
            x, y = batch
            return torch.nn.functional.mse_loss(self.layer(x.cuda(0)), y.to("cuda:0"))  # <-

    L.Trainer(accelerator="gpu", devices=4, strategy="ddp").fit(Net())

Good: the batch already is on the GPU, and a new tensor follows it

    import lightning as L
    import torch

    class Net(L.LightningModule):
        def __init__(self):
            super().__init__()
            self.layer = torch.nn.Linear(8, 1)

        def training_step(self, batch, index):
            x, y = batch
            noise = torch.randn(len(x), 8, device=self.device)
            return torch.nn.functional.mse_loss(self.layer(x + noise), y)

        def configure_optimizers(self):
            return torch.optim.SGD(self.parameters(), lr=0.1)

    L.Trainer(accelerator="gpu", devices=4, strategy="ddp").fit(Net())

Quiet: one device

    import lightning as L
    import torch

    class Net(L.LightningModule):
        def training_step(self, batch, index):
            return batch.cuda(0).mean()

    L.Trainer(accelerator="gpu", devices=1).fit(Net())

Quiet: the GPU of the process, or only the first process

    import lightning as L
    import torch

    class Net(L.LightningModule):
        def training_step(self, batch, index):
            if self.global_rank == 0:
                batch[0].cuda(0)
            return batch.cuda(self.local_rank).mean() + batch.to(self.device).mean() + batch.cuda().mean()

    L.Trainer(accelerator="gpu", devices=4, strategy="ddp").fit(Net())

Quiet: on an instance with one GPU

    # file: launch.py
    from sagemaker.pytorch import PyTorch

    PyTorch(
        entry_point="train.py", role="role", framework_version="2.6", py_version="py312",
        instance_count=1, instance_type="ml.g5.xlarge",
    ).fit()
    # file: train.py
    import lightning as L

    class Net(L.LightningModule):
        def training_step(self, batch, index):
            return batch.cuda(0).mean()

    L.Trainer(accelerator="gpu").fit(Net())
"""

import ast
import re

from gpuproof.findings import Severity
from gpuproof.linter.analysis.call import Call, calls_named, calls_within
from gpuproof.linter.analysis.evaluation.evaluate import evaluate
from gpuproof.linter.analysis.module import Module
from gpuproof.linter.knowledge.frameworks.torch import is_lightning_module, is_test
from gpuproof.linter.knowledge.trainers.lightning_devices import runs_on_several_gpus
from gpuproof.linter.project import Project
from gpuproof.linter.rule import Hits, Rule

rule = Rule("DS127", "fixed-gpu-in-lightning", Severity.ERROR, needs=("LightningModule",))

_NUMBERED = re.compile(r"^cuda:\d+$")


@rule.module
def check(module: Module, project: Project) -> Hits:
    owners = [owner for owner in module.classes.values() if is_lightning_module(module, owner)]
    if not owners or is_test(module):
        return
    moves = [
        (call, gpu)
        for owner in owners
        for call in calls_within(calls_named(module, "cuda", "to"), owner)
        if (gpu := _fixed_gpu(call)) is not None and not _is_of_one_rank(module, call)
    ]
    if not moves or not runs_on_several_gpus(module, project):
        return
    lines: set[int] = set()
    for call, gpu in moves:
        if call.node.lineno in lines:
            continue
        lines.add(call.node.lineno)
        yield rule.hit(
            call.span,
            f"`{module.text(call.node)}` is on GPU {gpu} in every process, where the module of this process is not.",
            remedy=f"Remove it: Lightning moves batches itself; move other tensors with .to(self.device), not to GPU {gpu}.",
        )


def _fixed_gpu(call: Call) -> int | None:
    """The number of the GPU that a tensor is moved to, if it is written there."""
    target = call.expression("device", 0)
    if target is None or call.receiver is None:
        return None
    made = call.module.origin(target)
    if isinstance(made, ast.Call) and call.module.qualified(made.func) == "torch.device" and made.args:
        if len(made.args) > 1 or made.keywords:
            return None
        target = made.args[0]
    value = evaluate(call.module, target)
    if not value.is_known:
        return None
    if value.text is not None and _NUMBERED.match(value.text):
        return int(value.text.partition(":")[2])
    number = value.number
    return int(number) if number is not None else None


def _is_of_one_rank(module: Module, call: Call) -> bool:
    """Whether a condition around a call names a rank or a device."""
    return any(
        isinstance(ancestor, (ast.If, ast.IfExp))
        and re.search(r"rank|zero|device|num_", module.text(ancestor.test)) is not None
        for ancestor in module.tree.ancestors(call.node)
    )
