"""The LightningModule has no optimizer: nothing is trained.

`configure_optimizers` without a return value makes Lightning train "with no optimizer", which is only a warning: the run ends as completed, with the weights that it
began with. Without the method, `fit` raises a MisconfigurationException.

Bad:

    import lightning as L
    import torch

    class Net(L.LightningModule):
        def training_step(self, batch, batch_idx):
            return self(batch).mean()

        def configure_optimizers(self):  # <-
            optimizer = torch.optim.Adam(self.parameters())

Bad: no method

    import lightning as L

    class Net(L.LightningModule):  # <-
        def training_step(self, batch, batch_idx):
            return self(batch).mean()

    L.Trainer(max_epochs=3).fit(Net())

Good:

    import lightning as L
    import torch

    class Net(L.LightningModule):
        def training_step(self, batch, batch_idx):
            return self(batch).mean()

        def configure_optimizers(self):
            return torch.optim.Adam(self.parameters())

Quiet: a base class that others complete

    import lightning as L

    class Base(L.LightningModule):
        def training_step(self, batch, batch_idx):
            return self(batch).mean()

        def configure_optimizers(self):
            raise NotImplementedError
"""

import ast

from gpuproof.findings import Severity
from gpuproof.linter.analysis.flow.call_targets import Definition, find_method
from gpuproof.linter.analysis.flow.creations import returned_values
from gpuproof.linter.analysis.module import Module
from gpuproof.linter.knowledge.frameworks.torch import is_test
from gpuproof.linter.knowledge.trainers.lightning import hooks, model_of, owners, runs
from gpuproof.linter.project import Project
from gpuproof.linter.rule import Hits, Rule

rule = Rule("LT119", "no-optimizer", Severity.ERROR, needs=("LightningModule",))


@rule.module
def check(module: Module, _: Project) -> Hits:
    if is_test(module):
        return
    for owner in owners(module, "LightningModule"):
        method = hooks(owner).get("configure_optimizers")
        if method is None or method.decorator_list or _is_abstract(method.body):
            continue
        if not returned_values(Definition(module, method)) and not any(
            isinstance(node, (ast.Yield, ast.YieldFrom)) for node in ast.walk(method)
        ):
            yield rule.hit(
                module.span(method),
                f"`configure_optimizers` of `{owner.node.name}` returns nothing: Lightning trains without an optimizer.",
                remedy="Return the optimizer.",
            )
    for run in runs(module, "fit"):
        model = model_of(run)
        if model is None or not isinstance(model.node, ast.ClassDef) or not _is_whole(model):
            continue
        if (
            find_method(model, "training_step") is not None
            and find_method(model, "configure_optimizers") is None
        ):
            yield rule.hit(
                model.module.span(model.node),
                f"`{model.node.name}` has no `configure_optimizers`: MisconfigurationException.",
                remedy="Define configure_optimizers(self), which returns the optimizer.",
            )


def _is_abstract(body: list[ast.stmt]) -> bool:
    """Whether a method has no body of its own."""
    own = [
        statement
        for statement in body
        if not (isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant))
    ]
    return all(isinstance(statement, (ast.Raise, ast.Pass)) for statement in own)


def _is_whole(model: Definition) -> bool:
    """Whether a class derives from LightningModule itself: what other bases define is not seen."""
    assert isinstance(model.node, ast.ClassDef)
    return [(model.module.qualified(base) or "").rpartition(".")[2] for base in model.node.bases] == [
        "LightningModule"
    ] and not any(
        isinstance(node, ast.Attribute) and node.attr == "configure_optimizers"
        for node in model.module.nodes(ast.Attribute)
    )
