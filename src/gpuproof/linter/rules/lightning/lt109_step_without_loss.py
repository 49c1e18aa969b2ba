"""`training_step` returns nothing that Lightning could train with: no loss, or one without its graph.

With automatic optimization, Lightning calls `backward()` on what `training_step` returns. Without a return value it skips every
step: the run ends as completed, with the weights that it began with. A dictionary must have the key "loss"; otherwise Lightning
raises a MisconfigurationException. A loss that is detached or a number (`loss.item()`, `loss.detach()`) has no graph: "element 0 of tensors does
not require grad", or again a MisconfigurationException.

Bad: nothing is returned

    import lightning as L
    import torch

    class Net(L.LightningModule):
        def training_step(self, batch, batch_idx):  # <-
            loss = self(batch).mean()
            self.log("train_loss", loss)

        def configure_optimizers(self):
            return torch.optim.Adam(self.parameters())

Bad: without its graph

    import lightning as L
    import torch

    class Net(L.LightningModule):
        def training_step(self, batch, batch_idx):
            loss = self(batch).mean()
            return loss.detach()  # <-

        def configure_optimizers(self):
            return torch.optim.Adam(self.parameters())

Bad: under another key

    import lightning as L
    import torch

    class Net(L.LightningModule):
        def training_step(self, batch, batch_idx):
            loss = self(batch).mean()
            return {"train_loss": loss}  # <-

        def configure_optimizers(self):
            return torch.optim.Adam(self.parameters())

Good:

    import lightning as L
    import torch

    class Net(L.LightningModule):
        def training_step(self, batch, batch_idx):
            loss = self(batch).mean()
            return {"loss": loss, "logits": loss.detach()}

        def configure_optimizers(self):
            return torch.optim.Adam(self.parameters())

Quiet: manual optimization, an abstract step, and a batch that is skipped

    import lightning as L
    import torch

    class Gan(L.LightningModule):
        def __init__(self):
            super().__init__()
            self.automatic_optimization = False

        def training_step(self, batch, batch_idx):
            optimizer = self.optimizers()
            optimizer.zero_grad()
            self.manual_backward(self(batch).mean())
            optimizer.step()

        def configure_optimizers(self):
            return torch.optim.Adam(self.parameters())

    class Base(L.LightningModule):
        def training_step(self, batch, batch_idx):
            raise NotImplementedError

    class Skips(L.LightningModule):
        def training_step(self, batch, batch_idx):
            if batch is None:
                return None
            return self(batch).mean()
"""

import ast
from collections.abc import Iterator

from gpuproof.findings import Severity
from gpuproof.linter.analysis.flow.call_targets import Definition
from gpuproof.linter.analysis.flow.creations import returned_values
from gpuproof.linter.analysis.module import Module
from gpuproof.linter.analysis.syntax_index import FunctionNode, callee_name
from gpuproof.linter.knowledge.frameworks.torch import is_test
from gpuproof.linter.knowledge.trainers.lightning import hooks, is_manual, owners
from gpuproof.linter.project import Project
from gpuproof.linter.rule import Hits, Rule

rule = Rule("LT109", "step-without-loss", Severity.ERROR, needs=("training_step",))

_NO_GRAPH = frozenset({"item", "detach", "numpy", "tolist"})
_OPTIMIZES = frozenset({"backward", "manual_backward", "optimizers"})


@rule.module
def check(module: Module, _: Project) -> Hits:
    if is_test(module):
        return
    for owner in owners(module, "LightningModule"):
        step = hooks(owner).get("training_step")
        if step is None or step.decorator_list or _is_abstract(step) or is_manual(module, owner) is not False:
            continue
        # A step that optimizes itself is reported by LT110.
        if any(
            isinstance(node, ast.Attribute) and node.attr in _OPTIMIZES for node in ast.walk(step)
        ) or "training_step_end" in hooks(owner):
            continue
        returned = returned_values(Definition(module, step))
        if not returned:
            yield rule.hit(
                module.span(step),
                f"`training_step` of `{owner.node.name}` returns nothing: Lightning skips every step, and nothing is trained.",
                remedy="Return the loss.",
            )
            continue
        for value in returned:
            for loss, why in _problems(module, value):
                yield rule.hit(module.span(loss), why, remedy="Return the loss itself, with its graph.")


def _problems(module: Module, value: ast.expr) -> Iterator[tuple[ast.expr, str]]:
    """The parts of a returned value that Lightning cannot train with."""
    made = module.origin(value) or value
    if isinstance(made, ast.Dict):
        keys = [key.value if isinstance(key, ast.Constant) else None for key in made.keys]
        if None in keys or (isinstance(value, ast.Name) and _is_changed(module, value)):
            return
        if "loss" not in keys:
            yield (
                value,
                'The dictionary that `training_step` returns has no "loss": MisconfigurationException.',
            )
            return
        loss = made.values[keys.index("loss")]
        yield from _detached(module, loss)
        return
    yield from _detached(module, value)


def _detached(module: Module, loss: ast.expr) -> Iterator[tuple[ast.expr, str]]:
    made = module.origin(loss) or loss
    if not isinstance(made, ast.Call):
        return
    name = callee_name(made)
    is_number = isinstance(made.func, ast.Name) and made.func.id == "float" and not module.binds("float")
    if is_number or (isinstance(made.func, ast.Attribute) and name in _NO_GRAPH):
        yield (
            loss,
            f"`{module.text(made)}` has no graph: `training_step` returns a loss that Lightning cannot differentiate.",
        )


def _is_changed(module: Module, name: ast.Name) -> bool:
    """Whether code adds entries to a dictionary: `output["loss"] = loss`, `output.update(...)`."""
    return any(
        isinstance(node.value, ast.Name) and node.value.id == name.id and node.value is not name
        for node in module.nodes(ast.Subscript, ast.Attribute)
    )


def _is_abstract(step: FunctionNode) -> bool:
    """Whether a method has no body of its own: it raises, passes, or only has a docstring."""
    body = [statement for statement in step.body if not _is_text(statement)]
    return all(isinstance(statement, (ast.Raise, ast.Pass)) for statement in body)


def _is_text(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
