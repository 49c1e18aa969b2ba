"""Lightning never calls this method: its hook was removed, or its name is misspelled.

Lightning 2.0 removed `training_epoch_end`, `validation_epoch_end` and `test_epoch_end`: a module with one of them stops at once
with a NotImplementedError. `training_step_end`, `on_epoch_end`, `on_train_dataloader` and others are silently ignored, and so is a misspelled hook (`configure_optimizer`, `on_validation_end_epoch`), so that metrics are never computed or a step of the
training is missing. The hooks of LightningModule, LightningDataModule and Callback were read from Lightning 1.5 to 2.6. A
method that the project calls itself is not reported.

Bad:

    # file: requirements.txt
    lightning==2.4.0
    # file: model.py
    import lightning as L
    import torch

    class Net(L.LightningModule):
        def training_step(self, batch, batch_idx):
            return {"loss": self(batch).mean()}

        def training_epoch_end(self, outputs):  # <-
            self.log("train_loss", torch.stack([output["loss"] for output in outputs]).mean())

        def configure_optimizers(self):
            return torch.optim.Adam(self.parameters())

Bad: misspelled

    import lightning as L
    import torch

    class Net(L.LightningModule):
        def training_step(self, batch, batch_idx):
            return self(batch).mean()

        def configure_optimizer(self):  # <-
            return torch.optim.Adam(self.parameters())

Bad: a callback, with a hook that 1.8 removed

    import pytorch_lightning as pl

    class Report(pl.Callback):
        def on_epoch_end(self, trainer, pl_module):  # <-
            print(trainer.callback_metrics)

Good:

    import lightning as L
    import torch

    class Net(L.LightningModule):
        def __init__(self):
            super().__init__()
            self.losses = []

        def training_step(self, batch, batch_idx):
            loss = self(batch).mean()
            self.losses.append(loss.detach())
            return loss

        def on_train_epoch_end(self):
            self.log("train_loss", torch.stack(self.losses).mean())
            self.losses.clear()

        def configure_optimizers(self):
            return torch.optim.Adam(self.parameters())

Quiet: Lightning 1

    # file: requirements.txt
    pytorch-lightning==1.9.5
    # file: model.py
    import pytorch_lightning as pl
    import torch

    class Net(pl.LightningModule):
        def training_step(self, batch, batch_idx):
            return {"loss": self(batch).mean()}

        def validation_epoch_end(self, outputs):
            self.log("val_loss", torch.stack(outputs).mean())

        def configure_optimizers(self):
            return torch.optim.Adam(self.parameters())

Quiet: helpers that the module calls itself

    import lightning as L
    import torch

    class Net(L.LightningModule):
        def train_step(self, batch):
            return self(batch).mean()

        def training_step_end(self, loss):
            return loss / 2

        def training_step(self, batch, batch_idx):
            return self.training_step_end(self.train_step(batch))

        def configure_optimizers(self):
            return torch.optim.Adam(self.parameters())
"""

import ast
import re

from gpuproof.findings import Severity
from gpuproof.linter.analysis.module import Module
from gpuproof.linter.analysis.syntax_index import FunctionNode
from gpuproof.linter.knowledge.trainers.lightning import Owner, hooks, owners
from gpuproof.linter.knowledge.trainers.releases import Removal, library_versions, removal, unsure
from gpuproof.linter.knowledge.trainers.tables import members, replacement
from gpuproof.linter.project import Project
from gpuproof.linter.rule import Hit, Hits, Rule, lowered
from gpuproof.util.spelling import edit_distance, nearest_words

rule = Rule(
    "LT102", "hook-never-called", Severity.ERROR, needs=("LightningModule", "LightningDataModule", "Callback")
)

_HOOK = re.compile(
    r"^on_|_(steps?|ends?|starts?|dataloaders?|loaders?|optimizers?)$|^(configure|optimizer|lr_scheduler|train|val|test|predict)_"
)
_STOPS = frozenset({"training_epoch_end", "validation_epoch_end", "test_epoch_end"})
"""Removed hooks for which Lightning 2 raises NotImplementedError; it ignores the others."""
_MISSPELLED = {
    "LightningModule": (
        "training_step", "validation_step", "test_step", "predict_step", "configure_optimizers", "train_dataloader",
        "val_dataloader", "test_dataloader", "predict_dataloader", "on_train_epoch_end", "on_train_epoch_start",
        "on_validation_epoch_end", "on_validation_epoch_start", "on_test_epoch_end", "on_train_batch_end",
        "on_train_batch_start", "on_validation_batch_end", "on_train_start", "on_train_end", "on_fit_start", "optimizer_step",
        "lr_scheduler_step", "on_save_checkpoint", "on_load_checkpoint",
    ),
    "LightningDataModule": (
        "train_dataloader", "val_dataloader", "test_dataloader", "predict_dataloader", "prepare_data", "setup", "teardown",
        "on_before_batch_transfer", "on_after_batch_transfer", "transfer_batch_to_device",
    ),
    "Callback": (
        "on_train_epoch_end", "on_train_epoch_start", "on_validation_epoch_end", "on_validation_epoch_start",
        "on_test_epoch_end", "on_train_batch_end", "on_train_batch_start", "on_validation_end", "on_train_start",
        "on_train_end", "on_fit_start", "on_fit_end", "on_save_checkpoint", "on_load_checkpoint",
    ),
}  # fmt: skip
"""The hooks that a method may be meant to be."""
_SHORT = {
    "train_step": "training_step",
    "val_step": "validation_step",
    "valid_step": "validation_step",
    "validate_step": "validation_step",
    "testing_step": "test_step",
    "train_loader": "train_dataloader",
    "val_loader": "val_dataloader",
    "validation_dataloader": "val_dataloader",
    "valid_dataloader": "val_dataloader",
    "training_dataloader": "train_dataloader",
}
"""What hooks are called elsewhere."""


@rule.module
def check(module: Module, project: Project) -> Hits:
    for owner in owners(module):
        known = members("lightning", owner.base)
        for name, method in hooks(owner).items():
            if name.startswith("_") or method.decorator_list or _is_used(module, name):
                continue
            if name in known:
                if known[name].gone_in is None or not _HOOK.search(name):
                    continue
                found = removal(known[name], library_versions(module, project, "lightning"), "lightning")
                if found is not None:
                    yield _removed(module, project, owner, method, found)
            elif (near := _meant(owner, name)) is not None:
                yield rule.hit(
                    module.span(method),
                    f"Lightning never calls `{name}` of `{owner.node.name}`: it is not a hook of {owner.base}.",
                    remedy=f"Rename it to {near}.",
                    severity=lowered(rule.severity),
                )


def _removed(module: Module, project: Project, owner: Owner, method: FunctionNode, found: Removal) -> Hit:
    name = method.name
    stops = name in _STOPS and owner.base == "LightningModule"
    effect = "raises NotImplementedError because of" if stops else "never calls"
    severity = rule.severity if stops else lowered(rule.severity)
    instead = replacement("lightning", owner.base, name)
    return rule.hit(
        module.span(method),
        f"{found.text} {effect} `{name}` of `{owner.node.name}`: the hook was removed.",
        remedy=f"Use {instead}." if instead else f"Remove {name}.",
        severity=severity if found.certain else _doubtful(module, project),
    )


def _doubtful(module: Module, project: Project) -> Severity:
    """The severity without a version: `lightning` is the name of the package since 2.0, `pytorch_lightning` may be an old one."""
    return unsure(module, project, "lightning") if not module.imports("lightning") else lowered(rule.severity)


def _meant(owner: Owner, name: str) -> str | None:
    """The hook that a method is meant to be: one that is spelled almost like it and that the class does not have."""
    if not _HOOK.search(name):
        return None
    own = hooks(owner)
    candidates = [hook for hook in _MISSPELLED[owner.base] if hook not in own]
    if _SHORT.get(name) in candidates:
        return _SHORT[name]
    parts = sorted(name.split("_"))
    swapped = next((hook for hook in candidates if sorted(hook.split("_")) == parts), None)
    if swapped is not None:
        return swapped
    plural = next((hook for hook in candidates if hook.rstrip("s") == name.rstrip("s")), None)
    if plural is not None:
        return plural
    near = [hook for hook in nearest_words(name, candidates) if edit_distance(name, hook) <= 2]
    return near[0] if near else None


def _is_used(module: Module, name: str) -> bool:
    """Whether code of the module reads a method of this name: `self.training_step_end(...)`."""
    return any(node.attr == name and isinstance(node.ctx, ast.Load) for node in module.nodes(ast.Attribute))
