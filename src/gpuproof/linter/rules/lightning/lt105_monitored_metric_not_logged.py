"""A callback or scheduler monitors a metric that the model never logs: the run fails after its first epoch.

ModelCheckpoint raises a MisconfigurationException ("could not find the monitored key in the returned metrics"), EarlyStopping a
RuntimeError, and a scheduler with `monitor` a MisconfigurationException: at the end of the first epoch or validation, which is
billed. The rule compares `monitor=` with the names that the model's class and the project's modules log with `log` and
`log_dict`; it reports nothing if a name is computed, or if the class of the model is unknown.

Bad:

    import lightning as L
    import torch
    from lightning.pytorch.callbacks import EarlyStopping, ModelCheckpoint

    class Net(L.LightningModule):
        def training_step(self, batch, batch_idx):
            loss = self(batch).mean()
            self.log("train_loss", loss)
            return loss

        def validation_step(self, batch, batch_idx):
            self.log("validation_loss", self(batch).mean(), sync_dist=True)

        def configure_optimizers(self):
            return torch.optim.Adam(self.parameters())

    callbacks = [
        ModelCheckpoint(dirpath="/opt/ml/model", monitor="val_loss"),  # <-
        EarlyStopping(monitor="validation_loss", patience=3),
    ]
    trainer = L.Trainer(max_epochs=10, callbacks=callbacks)
    trainer.fit(Net())

Good:

    import lightning as L
    import torch
    from lightning.pytorch.callbacks import EarlyStopping

    class Net(L.LightningModule):
        def step(self, batch, stage):
            loss = self(batch).mean()
            self.log(f"{stage}_loss", loss, sync_dist=True)
            return loss

        def training_step(self, batch, batch_idx):
            return self.step(batch, "train")

        def validation_step(self, batch, batch_idx):
            self.step(batch, "val")

        def configure_optimizers(self):
            return torch.optim.Adam(self.parameters())

    trainer = L.Trainer(max_epochs=10, callbacks=[EarlyStopping(monitor="val_loss")])
    trainer.fit(Net())

Quiet: the metrics of a collection have names of their own

    import lightning as L
    import torch
    from lightning.pytorch.callbacks import EarlyStopping

    class Net(L.LightningModule):
        def training_step(self, batch, batch_idx):
            return self(batch).mean()

        def validation_step(self, batch, batch_idx):
            self.log_dict(self.metrics(self(batch)))

        def configure_optimizers(self):
            return torch.optim.Adam(self.parameters())

    trainer = L.Trainer(max_epochs=10, callbacks=[EarlyStopping(monitor="val_f1", mode="max")])
    trainer.fit(Net())
"""

import ast
from collections.abc import Iterator

from gpuproof.findings import Severity
from gpuproof.jobs.suggestions import did_you_mean
from gpuproof.linter.analysis.evaluation.evaluate import evaluate
from gpuproof.linter.analysis.flow.call_targets import find_definition
from gpuproof.linter.analysis.local_imports import local_modules
from gpuproof.linter.analysis.module import Module
from gpuproof.linter.knowledge.trainers.lightning import class_name, created, hooks, model_of, owners, runs
from gpuproof.linter.knowledge.trainers.metric_names import logged_names
from gpuproof.linter.project import Project
from gpuproof.linter.rule import Hits, Rule

rule = Rule("LT105", "monitored-metric-not-logged", Severity.ERROR, needs=("monitor", "EarlyStopping"))


@rule.module
def check(module: Module, _: Project) -> Hits:
    wanted = [*_of_callbacks(module), *_of_schedulers(module)]
    if not wanted:
        return
    modules = local_modules(module)
    models = [model_of(run) for other in modules for run in runs(other, "fit")]
    if not models or any(model is None or not _is_whole(model.module, model.node) for model in models):
        return
    logged = logged_names(
        [*modules, *(model.module for model in models if model is not None and model.module not in modules)]
    )
    for node, name, what in wanted:
        if logged.may_have(name) or "/dataloader_idx_" in name:
            continue
        yield rule.hit(
            module.span(node),
            f"{what} monitors `{name}`, which no module of the project logs{did_you_mean(name, logged.known) or '.'}",
            remedy=f'Log it with self.log("{name}", ...), or monitor a metric that is logged.',
        )


def _of_callbacks(module: Module) -> Iterator[tuple[ast.expr, str, str]]:
    for call in created(module, "ModelCheckpoint", "EarlyStopping"):
        position = 0 if class_name(call) == "EarlyStopping" else 2
        value, written = call.argument("monitor", position), call.expression("monitor", position)
        if value.is_known and value.text and written is not None:
            yield written, value.text, str(class_name(call))


def _of_schedulers(module: Module) -> Iterator[tuple[ast.expr, str, str]]:
    """The `monitor` of schedulers that `configure_optimizers` returns."""
    for owner in owners(module, "LightningModule"):
        method = hooks(owner).get("configure_optimizers")
        for node in ast.walk(method) if method is not None else ():
            if not isinstance(node, ast.Dict):
                continue
            for key, value in zip(node.keys, node.values, strict=True):
                if isinstance(key, ast.Constant) and key.value == "monitor":
                    name = evaluate(module, value)
                    if name.is_known and name.text:
                        yield value, name.text, "The scheduler"


def _is_whole(module: Module, node: ast.AST) -> bool:
    """Whether every base of a model's class is known: another one may log."""
    if not isinstance(node, ast.ClassDef):
        return False
    for base in node.bases:
        name = module.qualified(base) or ""
        if name.endswith((".LightningModule", "torch.nn.Module")) or name in ("abc.ABC",):
            continue
        found = find_definition(module, base)
        if found is None or not _is_whole(found.module, found.node):
            return False
    return True
