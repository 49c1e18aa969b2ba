"""`load_from_checkpoint` cannot create the model: its class has required parameters, and the checkpoint does not have them.

A checkpoint has the arguments of `__init__` only if the class calls `self.save_hyperparameters()`. Otherwise, and for the arguments that it
ignores, they must be passed to `load_from_checkpoint`; without them it raises a TypeError, often at the end of a long training or when
the endpoint starts.

Bad:

    import lightning as L
    import torch

    class Net(L.LightningModule):
        def __init__(self, width, lr=0.1):
            super().__init__()
            self.layer = torch.nn.Linear(width, 1)
            self.lr = lr

        def training_step(self, batch, batch_idx):
            return self.layer(batch).mean()

        def configure_optimizers(self):
            return torch.optim.Adam(self.parameters(), lr=self.lr)

    model = Net.load_from_checkpoint("last.ckpt")  # <-

Good:

    import lightning as L
    import torch

    class Net(L.LightningModule):
        def __init__(self, width, lr=0.1):
            super().__init__()
            self.save_hyperparameters()
            self.layer = torch.nn.Linear(width, 1)

        def training_step(self, batch, batch_idx):
            return self.layer(batch).mean()

        def configure_optimizers(self):
            return torch.optim.Adam(self.parameters(), lr=self.hparams.lr)

    model = Net.load_from_checkpoint("last.ckpt")

Quiet: they are passed

    import lightning as L
    import torch

    class Net(L.LightningModule):
        def __init__(self, backbone):
            super().__init__()
            self.save_hyperparameters(ignore=["backbone"])
            self.backbone = backbone

        def training_step(self, batch, batch_idx):
            return self.backbone(batch).mean()

        def configure_optimizers(self):
            return torch.optim.Adam(self.parameters())

    model = Net.load_from_checkpoint("last.ckpt", backbone=torch.nn.Linear(4, 1))
"""

import ast

from gpuproof.findings import Severity
from gpuproof.linter.analysis.call import Call, calls_named
from gpuproof.linter.analysis.evaluation.evaluate import evaluate
from gpuproof.linter.analysis.flow.call_targets import Definition, find_definition, find_method
from gpuproof.linter.analysis.module import Module
from gpuproof.linter.knowledge.trainers.lightning import owners
from gpuproof.linter.project import Project
from gpuproof.linter.rule import Hit, Hits, Rule

rule = Rule("LT112", "checkpoint-without-hyperparameters", Severity.ERROR, needs=("load_from_checkpoint",))


@rule.module
def check(module: Module, _: Project) -> Hits:
    for call in calls_named(module, "load_from_checkpoint"):
        if call.receiver is None or call.is_open or not call.argument("hparams_file", 2).is_absent:
            continue
        owner = find_definition(module, call.receiver)
        if owner is None or not isinstance(owner.node, ast.ClassDef):
            continue
        if not any(
            item.node is owner.node and item.base == "LightningModule" for item in owners(owner.module)
        ):
            continue
        missing = [name for name in _unsaved(owner) if name not in call.keywords]
        if missing:
            yield _hit(call, owner.node.name, missing)


def _hit(call: Call, owner: str, missing: list[str]) -> Hit:
    names = ", ".join(f"`{name}`" for name in missing)
    return rule.hit(
        call.span,
        f"`{owner}` requires {names}, which its checkpoints do not have: TypeError.",
        remedy=f"Call self.save_hyperparameters() in its __init__, or pass {', '.join(f'{name}=' for name in missing)}.",
    )


def _unsaved(owner: Definition) -> list[str]:
    """The required parameters of a class that its checkpoints do not have."""
    created = find_method(owner, "__init__")
    if created is None or isinstance(created.node, ast.ClassDef):
        return []
    arguments = created.node.args
    names = [argument.arg for argument in (*arguments.posonlyargs, *arguments.args)]
    required = names[1 : len(names) - len(arguments.defaults)]
    required += [
        argument.arg
        for argument, value in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
        if value is None
    ]
    if not required or created.node.decorator_list:
        return []
    saves = [
        node
        for node in ast.walk(created.node)
        if isinstance(node, ast.Attribute)
        and node.attr in ("save_hyperparameters", "hparams", "_set_hparams")
    ]
    if not saves:
        return required
    ignored = _ignored(created.module, created.node)
    return [name for name in required if name in ignored]


def _ignored(module: Module, function: ast.FunctionDef | ast.AsyncFunctionDef) -> set[str]:
    """The parameters in `save_hyperparameters(ignore=[...])`."""
    found: set[str] = set()
    for call in calls_named(module, "save_hyperparameters"):
        if module.function_of(call.node) is function and "ignore" in call.keywords:
            value = evaluate(module, call.keywords["ignore"])
            found.update(value.texts)
            found.update(item.text for item in value.items or () if item.text)
    return found
