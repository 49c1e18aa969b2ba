"""The scheduler that `configure_optimizers` returns is not complete: MisconfigurationException when the training begins.

ReduceLROnPlateau needs `monitor`, the metric that it follows; `interval` is "step" or "epoch"; a mapping for a scheduler must have the key "scheduler".

Bad: without a metric

    import lightning as L
    import torch

    class Net(L.LightningModule):
        def training_step(self, batch, batch_idx):
            return self(batch).mean()

        def configure_optimizers(self):
            optimizer = torch.optim.Adam(self.parameters())
            scheduler = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer)
            return [optimizer], [scheduler]  # <-

Bad: another interval

    import lightning as L
    import torch

    class Net(L.LightningModule):
        def training_step(self, batch, batch_idx):
            return self(batch).mean()

        def configure_optimizers(self):
            optimizer = torch.optim.Adam(self.parameters())
            scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 10)
            return {"optimizer": optimizer, "lr_scheduler": {"scheduler": scheduler, "interval": "steps"}}  # <-

Good:

    import lightning as L
    import torch

    class Net(L.LightningModule):
        def training_step(self, batch, batch_idx):
            loss = self(batch).mean()
            self.log("train_loss", loss)
            return loss

        def configure_optimizers(self):
            optimizer = torch.optim.Adam(self.parameters())
            scheduler = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer)
            return {"optimizer": optimizer, "lr_scheduler": scheduler, "monitor": "train_loss"}

Quiet: manual optimization

    import lightning as L
    import torch

    class Net(L.LightningModule):
        def __init__(self):
            super().__init__()
            self.automatic_optimization = False

        def training_step(self, batch, batch_idx):
            optimizer = self.optimizers()
            optimizer.zero_grad()
            self.manual_backward(self(batch).mean())
            optimizer.step()

        def configure_optimizers(self):
            optimizer = torch.optim.Adam(self.parameters())
            return [optimizer], [torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer)]
"""

from gpuproof.findings import Severity
from gpuproof.linter.analysis.evaluation.evaluate import evaluate
from gpuproof.linter.analysis.module import Module
from gpuproof.linter.knowledge.trainers.lightning import hooks, is_manual, owners
from gpuproof.linter.knowledge.trainers.lightning_schedulers import ReturnedScheduler, returned_schedulers
from gpuproof.linter.project import Project
from gpuproof.linter.rule import Hits, Rule

rule = Rule("LT118", "scheduler-configuration", Severity.ERROR, needs=("configure_optimizers",))


@rule.module
def check(module: Module, _: Project) -> Hits:
    for owner in owners(module, "LightningModule"):
        method = hooks(owner).get("configure_optimizers")
        if method is None or is_manual(module, owner) is not False:
            continue
        for scheduler in returned_schedulers(module, method):
            problem = _problem(module, scheduler)
            if problem is not None:
                what, remedy = problem
                yield rule.hit(
                    module.span(scheduler.entry), f"{what}: MisconfigurationException.", remedy=remedy
                )


def _problem(module: Module, scheduler: ReturnedScheduler) -> tuple[str, str] | None:
    if "interval" in scheduler.given:
        interval = evaluate(module, scheduler.given["interval"])
        if interval.is_known and interval.text is not None and interval.text not in ("step", "epoch"):
            return f"`interval` is {interval.text!r}, and must be 'step' or 'epoch'", 'Use "step" or "epoch".'
    name = (scheduler.created.name or "").rpartition(".")[2]
    if name == "ReduceLROnPlateau" and "monitor" not in scheduler.given and not scheduler.is_open:
        return (
            "ReduceLROnPlateau has no `monitor`",
            'Return {"optimizer": optimizer, "lr_scheduler": {"scheduler": scheduler, "monitor": "val_loss"}}.',
        )
    return None
