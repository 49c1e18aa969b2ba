"""Each process logs the metric of its own part of the validation data: with several GPUs, the number is that of one rank.

Under DDP, every process validates a part of the data. `self.log("val_loss", loss)` without `sync_dist=True` keeps the value of
each process to itself: the logger, ModelCheckpoint and EarlyStopping see that of rank 0, and ranks may even disagree about
when to stop. The rule reports losses in `validation_step` and `test_step` of modules that run on several GPUs; metrics of
torchmetrics are combined by themselves, and are not reported.

Bad:

    import lightning as L
    import torch

    class Net(L.LightningModule):
        def training_step(self, batch, batch_idx):
            return self(batch).mean()

        def validation_step(self, batch, batch_idx):
            loss = self(batch).mean()
            self.log("val_loss", loss, prog_bar=True)  # <-

        def configure_optimizers(self):
            return torch.optim.Adam(self.parameters())

    L.Trainer(accelerator="gpu", devices=4, strategy="ddp").fit(Net())

Good:

    import lightning as L
    import torch
    import torchmetrics

    class Net(L.LightningModule):
        def __init__(self):
            super().__init__()
            self.accuracy = torchmetrics.Accuracy(task="binary")

        def training_step(self, batch, batch_idx):
            loss = self(batch).mean()
            self.log("train_loss", loss)
            return loss

        def validation_step(self, batch, batch_idx):
            self.accuracy(self(batch), batch)
            self.log("val_accuracy", self.accuracy)
            self.log("val_loss", self(batch).mean(), sync_dist=True)

        def configure_optimizers(self):
            return torch.optim.Adam(self.parameters())

    L.Trainer(accelerator="gpu", devices=4, strategy="ddp").fit(Net())

Quiet: one GPU

    import lightning as L
    import torch

    class Net(L.LightningModule):
        def training_step(self, batch, batch_idx):
            return self(batch).mean()

        def validation_step(self, batch, batch_idx):
            self.log("val_loss", self(batch).mean())

        def configure_optimizers(self):
            return torch.optim.Adam(self.parameters())

    L.Trainer(accelerator="gpu", devices=1).fit(Net())
"""

import ast
import re

from gpuproof.findings import Severity
from gpuproof.linter.analysis.call import Call, calls_named, calls_within
from gpuproof.linter.analysis.module import Module
from gpuproof.linter.knowledge.frameworks.torch import is_test
from gpuproof.linter.knowledge.trainers.lightning import Owner, attribute_values, hooks, owners
from gpuproof.linter.knowledge.trainers.lightning_devices import runs_on_several_gpus
from gpuproof.linter.project import Project
from gpuproof.linter.rule import Hits, Rule

rule = Rule("LT107", "log-without-sync-dist", Severity.WARNING, needs=("LightningModule",))

_STEPS = ("validation_step", "test_step")
_METRIC = re.compile(r"metric|torchmetrics|accuracy|\bacc\b|compute|auroc|f1", re.IGNORECASE)
"""What may be a metric of torchmetrics, which combines its state over the processes itself."""


@rule.module
def check(module: Module, project: Project) -> Hits:
    if is_test(module):
        return
    found = [
        (call, name)
        for owner in owners(module, "LightningModule")
        for step, method in hooks(owner).items()
        if step in _STEPS
        for call in calls_within(calls_named(module, "log"), method)
        if (name := _unsynced(owner, call)) is not None
    ]
    if not found or not runs_on_several_gpus(module, project):
        return
    for call, name in found:
        yield rule.hit(
            call.span,
            f"`{name}` is not combined over the processes: each has that of its own part of the validation data.",
            remedy="Pass sync_dist=True.",
        )


def _unsynced(owner: Owner, call: Call) -> str | None:
    """The name of what a call logs for its own process only."""
    if not isinstance(call.receiver, ast.Name) or call.receiver.id != "self":
        return None
    sync, value, name = call.argument("sync_dist"), call.expression("value", 1), call.argument("name", 0)
    if not (sync.is_absent or (sync.is_known and sync.flag is False)) or value is None or name.text is None:
        return None
    if not call.argument("rank_zero_only").is_absent or _may_be_metric(owner, call.module, value, 0):
        return None
    return name.text


def _may_be_metric(owner: Owner, module: Module, node: ast.expr, depth: int) -> bool:
    """Whether a value may come from a metric: an attribute of the module that is none of its losses, or something unknown."""
    if depth > 4:
        return True
    for child in ast.walk(node):
        if (
            isinstance(child, ast.Attribute)
            and isinstance(child.value, ast.Name)
            and child.value.id == "self"
        ):
            values = [module.text(value) for value in attribute_values(owner.node, child.attr)]
            if any(_METRIC.search(text) for text in (child.attr, *values)):
                return True
        elif isinstance(child, ast.Name) and isinstance(child.ctx, ast.Load):
            values = [
                binding.value for binding in module.reaching(child) if binding.kind in ("assign", "unpack")
            ]
            if module.function_of(child) and any(
                value is not None and _may_be_metric(owner, module, value, depth + 1) for value in values
            ):
                return True
    return False
