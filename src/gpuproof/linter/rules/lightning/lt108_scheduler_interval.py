"""The scheduler is stepped at the wrong interval: Lightning steps it once an epoch unless `interval` is "step".

OneCycleLR and the warmup schedules of transformers count batches. Stepped once an epoch, they hardly leave their warmup: the
whole training runs at a tiny rate. The reverse, a schedule in epochs (`T_max=max_epochs`, milestones) with `interval="step"`, is
over within the first epoch: the rate is zero, or climbs and falls dozens of times. Both end as completed, with a model that
has learned little. Schedules that are stepped by the module itself are not reported.

Bad:

    import lightning as L
    import torch

    class Net(L.LightningModule):
        def training_step(self, batch, batch_idx):
            return self(batch).mean()

        def configure_optimizers(self):
            optimizer = torch.optim.AdamW(self.parameters())
            scheduler = torch.optim.lr_scheduler.OneCycleLR(
                optimizer, max_lr=0.1, total_steps=self.trainer.estimated_stepping_batches
            )
            return [optimizer], [scheduler]  # <-

Bad: the warmup of transformers

    import lightning as L
    import torch
    from transformers import get_linear_schedule_with_warmup

    class Net(L.LightningModule):
        def training_step(self, batch, batch_idx):
            return self(batch).mean()

        def configure_optimizers(self):
            optimizer = torch.optim.AdamW(self.parameters())
            scheduler = get_linear_schedule_with_warmup(optimizer, 500, self.trainer.estimated_stepping_batches)
            return {"optimizer": optimizer, "lr_scheduler": {"scheduler": scheduler}}  # <-

Bad: epochs, counted as batches

    import lightning as L
    import torch

    class Net(L.LightningModule):
        def training_step(self, batch, batch_idx):
            return self(batch).mean()

        def configure_optimizers(self):
            optimizer = torch.optim.AdamW(self.parameters())
            scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=self.trainer.max_epochs)
            return {"optimizer": optimizer, "lr_scheduler": {"scheduler": scheduler, "interval": "step"}}  # <-

Good:

    import lightning as L
    import torch

    class Net(L.LightningModule):
        def training_step(self, batch, batch_idx):
            return self(batch).mean()

        def configure_optimizers(self):
            optimizer = torch.optim.AdamW(self.parameters())
            steps = self.trainer.estimated_stepping_batches
            scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=0.1, total_steps=steps)
            return {"optimizer": optimizer, "lr_scheduler": {"scheduler": scheduler, "interval": "step"}}

Quiet: one cycle over epochs, and a cosine over batches

    import lightning as L
    import torch

    class Net(L.LightningModule):
        def training_step(self, batch, batch_idx):
            return self(batch).mean()

        def configure_optimizers(self):
            optimizer = torch.optim.AdamW(self.parameters())
            scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=0.1, total_steps=self.trainer.max_epochs)
            return [optimizer], [scheduler]

    class Other(L.LightningModule):
        def training_step(self, batch, batch_idx):
            return self(batch).mean()

        def configure_optimizers(self):
            optimizer = torch.optim.AdamW(self.parameters())
            steps = self.trainer.max_epochs * self.batches
            scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=steps)
            return {"optimizer": optimizer, "lr_scheduler": {"scheduler": scheduler, "interval": "step"}}
"""

import ast
import re

from gpuproof.findings import Severity
from gpuproof.linter.analysis.call import Call
from gpuproof.linter.analysis.module import Module
from gpuproof.linter.knowledge.trainers.lightning import hooks, owners
from gpuproof.linter.knowledge.trainers.lightning_schedulers import ReturnedScheduler, returned_schedulers
from gpuproof.linter.project import Project
from gpuproof.linter.rule import Hits, Rule

rule = Rule("LT108", "scheduler-interval", Severity.WARNING, needs=("configure_optimizers",))

_BY_BATCH = re.compile(
    r"(^|\.)(OneCycleLR|CyclicLR|get_(linear|cosine|polynomial_decay|constant|inverse_sqrt|cosine_with_hard_restarts)_"
    r"(schedule|decay_schedule)?_?(schedule_)?with_(warmup|hard_restarts\w*)|get_scheduler)$"
)
_BY_EPOCH = {
    "StepLR": ("step_size", 1),
    "CosineAnnealingLR": ("T_max", 1),
    "MultiStepLR": ("milestones", 1),
    "PolynomialLR": ("total_iters", 1),
}
"""Schedulers that may count epochs or batches, with the argument that tells which."""
_MAX_EPOCHS = 100
"""A period of at most so many steps is one of epochs."""
_MIN_BATCHES = 500
"""A period of at least so many steps is one of batches."""


@rule.module
def check(module: Module, _: Project) -> Hits:
    for owner in owners(module, "LightningModule"):
        own = hooks(owner)
        method = own.get("configure_optimizers")
        if method is None or "lr_scheduler_step" in own or _steps_itself(owner.node):
            continue
        for scheduler in returned_schedulers(module, method):
            yield from _check(module, scheduler)


def _check(module: Module, scheduler: ReturnedScheduler) -> Hits:
    name = (scheduler.created.name or scheduler.created.method).rpartition(".")[2]
    if scheduler.interval == "epoch" and _counts_batches(scheduler.created):
        yield rule.hit(
            module.span(scheduler.entry),
            f"`{name}` counts batches, and Lightning steps it once an epoch: it hardly begins.",
            remedy='Return {"optimizer": optimizer, "lr_scheduler": {"scheduler": scheduler, "interval": "step"}}.',
        )
    elif scheduler.interval == "step" and _counts_epochs(module, scheduler.created, name):
        yield rule.hit(
            module.span(scheduler.given.get("interval") or scheduler.entry),
            f"`{module.text(scheduler.created.node)}` counts epochs, and Lightning steps it after each batch: it is over at once.",
            remedy='Remove "interval": "step", or count batches with self.trainer.estimated_stepping_batches.',
        )


def _counts_batches(created: Call) -> bool:
    """Whether a scheduler counts batches: its arguments do not speak of epochs."""
    if not _BY_BATCH.search(created.name or created.method):
        return False
    values = [*created.node.args[1:], *created.keywords.values()]
    written = [created.module.text(created.module.origin(value) or value) for value in values]
    if created.method == "OneCycleLR":
        if "steps_per_epoch" in created.keywords:
            return True
        total = created.argument("total_steps", 2)
        if total.number is not None:
            return total.number >= _MIN_BATCHES
        return any(re.search(r"steps?|batches|len\(", text) for text in written)
    return any(re.search(r"steps?|batches|len\(", text) for text in written) and not any(
        re.search(r"epoch", text) and not re.search(r"\*|len\(|steps_per|batches", text) for text in written
    )


def _counts_epochs(module: Module, created: Call, name: str) -> bool:
    """Whether a scheduler counts epochs: its period is `max_epochs`, or a small number."""
    if name not in _BY_EPOCH or not (created.name or "").startswith("torch."):
        return False
    keyword, position = _BY_EPOCH[name]
    node = created.expression(keyword, position)
    if node is None:
        return False
    value = created.argument(keyword, position)
    if value.items is not None:
        numbers = [item.number for item in value.items]
        return bool(numbers) and all(number is not None and number <= _MAX_EPOCHS for number in numbers)
    written = module.origin(node) or node
    if isinstance(written, (ast.Name, ast.Attribute)) and module.text(written).endswith("epochs"):
        return True
    return value.is_known and value.number is not None and 1 < value.number <= _MAX_EPOCHS


def _steps_itself(owner: ast.ClassDef) -> bool:
    """Whether a module steps its schedulers itself."""
    return any(isinstance(node, ast.Attribute) and node.attr == "lr_schedulers" for node in ast.walk(owner))
