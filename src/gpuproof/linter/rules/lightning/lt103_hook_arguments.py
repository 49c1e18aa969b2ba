"""A hook requires arguments that Lightning 2 does not pass: its first call fails with a TypeError.

Lightning 2.0 removed `optimizer_idx` from every hook, `outputs` from `on_train_epoch_end` and its relatives, and `on_tpu`,
`using_native_amp` and `using_lbfgs` from `optimizer_step`. `setup` and `teardown` always get the stage. A hook that is called
at the end of an epoch fails only after that epoch, which is billed. What Lightning passes was read from the definitions of
LightningModule, LightningDataModule and Callback in Lightning 2.6. It is a warning if the project pins no version.

Bad:

    # file: requirements.txt
    lightning>=2.2
    # file: model.py
    import lightning as L
    import torch

    class Gan(L.LightningModule):
        def training_step(self, batch, batch_idx, optimizer_idx):  # <-
            return self(batch).mean()

        def on_validation_epoch_end(self, outputs):  # <-
            self.log("val_loss", torch.stack(outputs).mean(), sync_dist=True)

        def configure_optimizers(self):
            return torch.optim.Adam(self.parameters())

Bad: without the stage

    import lightning as L

    class Data(L.LightningDataModule):
        def setup(self):  # <-
            self.files = ["a", "b"]

Good:

    import lightning as L
    import torch

    class Net(L.LightningModule):
        def training_step(self, batch, batch_idx):
            return self(batch).mean()

        def on_validation_epoch_end(self):
            self.log("val_loss", torch.stack(self.losses).mean(), sync_dist=True)

        def setup(self, stage=None):
            self.losses = []

        def on_train_batch_end(self, outputs, batch, batch_idx, unused=0):
            self.losses.append(outputs["loss"])

        def configure_optimizers(self):
            return torch.optim.Adam(self.parameters())

Quiet: Lightning 1

    # file: requirements.txt
    pytorch-lightning<2
    # file: model.py
    import pytorch_lightning as pl
    import torch

    class Gan(pl.LightningModule):
        def training_step(self, batch, batch_idx, optimizer_idx):
            return self(batch).mean()

        def configure_optimizers(self):
            return torch.optim.Adam(self.parameters()), torch.optim.Adam(self.parameters())

Quiet: a loop over Fabric calls it

    import lightning as L

    class Agent(L.LightningModule):
        def on_train_epoch_end(self, step):
            self.log("step", step)

    fabric = L.Fabric()
    agent = fabric.setup(Agent())
    for step in range(10):
        agent.on_train_epoch_end(step)
"""

import ast

from gpuproof.findings import Severity
from gpuproof.linter.analysis.call import calls_named
from gpuproof.linter.analysis.local_imports import program_modules
from gpuproof.linter.analysis.module import Module
from gpuproof.linter.analysis.syntax_index import FunctionNode
from gpuproof.linter.knowledge.trainers.lightning import hooks, owners
from gpuproof.linter.knowledge.trainers.releases import is_at_least, unsure
from gpuproof.linter.knowledge.trainers.tables import hook_arguments
from gpuproof.linter.project import Project
from gpuproof.linter.rule import Hits, Rule, lowered

rule = Rule(
    "LT103", "hook-arguments", Severity.ERROR, needs=("LightningModule", "LightningDataModule", "Callback")
)


@rule.module
def check(module: Module, project: Project) -> Hits:
    for owner in owners(module):
        passed = hook_arguments(owner.base)
        for name, method in hooks(owner).items():
            if method.decorator_list:
                continue
            if name == "training_step" and owner.base == "LightningModule":
                problem = _indexed(method)
            else:
                problem = _mismatch(name, method, passed[name]) if name in passed else None
            if problem is None or _calls_itself(module, name):
                continue
            is_new = is_at_least(module, project, "lightning", "2.0")
            if is_new == "no":
                return
            # `lightning` is the name of the package since 2.0; `pytorch_lightning` may be an old one.
            doubtful = (
                lowered(rule.severity)
                if module.imports("lightning")
                else unsure(module, project, "lightning")
            )
            yield rule.hit(
                module.span(method),
                f"`{name}` of `{owner.node.name}` {problem}: TypeError.",
                remedy=_remedy(name, passed),
                severity=rule.severity if is_new == "yes" else doubtful,
            )


def _calls_itself(module: Module, name: str) -> bool:
    """Whether the program calls a hook itself, as loops over Fabric do."""
    return any(
        isinstance(call.receiver, (ast.Name, ast.Attribute))
        for part in program_modules(module, name)
        for call in calls_named(part, name)
    )


def _indexed(method: FunctionNode) -> str | None:
    """The problem of a `training_step` that still gets the number of an optimizer."""
    return (
        "requires `optimizer_idx`, which Lightning 2 does not pass"
        if "optimizer_idx" in _required(method)
        else None
    )


def _mismatch(name: str, method: FunctionNode, passed: tuple[str, ...]) -> str | None:
    required = _required(method)
    if len(required) > len(passed):
        extra = ", ".join(f"`{parameter}`" for parameter in required[len(passed) :])
        return f"requires {extra}, which Lightning 2 does not pass"
    arguments = method.args
    accepted = len(arguments.posonlyargs) + len(arguments.args) - 1
    if arguments.vararg is not None or accepted >= len(passed) or "dataloader_idx" in passed:
        return None
    if arguments.kwarg is not None and name in ("setup", "teardown"):
        return None
    missing = ", ".join(f"`{parameter}`" for parameter in passed[accepted:])
    return f"does not take {missing}, which Lightning passes"


def _required(method: FunctionNode) -> list[str]:
    """The positional parameters without a default, but for `self`."""
    arguments = method.args
    names = [argument.arg for argument in (*arguments.posonlyargs, *arguments.args)]
    return names[1 : len(names) - len(arguments.defaults)]


def _remedy(name: str, passed: dict[str, tuple[str, ...]]) -> str:
    if name == "training_step":
        return "Set self.automatic_optimization = False, and step each of self.optimizers() in training_step(self, batch, batch_idx)."
    return f"Define it as {name}({', '.join(('self', *passed[name]))})."
