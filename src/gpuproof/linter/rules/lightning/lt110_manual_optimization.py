"""Manual and automatic optimization are mixed, or a step of the manual one is missing.

With `self.automatic_optimization = False`, Lightning neither computes gradients nor steps optimizers: without `manual_backward()` or
`step()` nothing is trained, without `zero_grad()` gradients add up, and `gradient_clip_val` or `accumulate_grad_batches` of the Trainer
raise a MisconfigurationException. Without it, `manual_backward()` raises one, `loss.backward()` in `training_step` computes gradients twice
("Trying to backward through the graph a second time"), and several optimizers are a RuntimeError in Lightning 2.

Bad: nothing computes the gradients

    import lightning as L
    import torch

    class Net(L.LightningModule):
        def __init__(self):
            super().__init__()
            self.automatic_optimization = False

        def training_step(self, batch, batch_idx):  # <-
            optimizer = self.optimizers()
            optimizer.zero_grad()
            loss = self(batch).mean()
            optimizer.step()
            return loss

        def configure_optimizers(self):
            return torch.optim.Adam(self.parameters())

Bad: automatic optimization

    import lightning as L
    import torch

    class Net(L.LightningModule):
        def training_step(self, batch, batch_idx):
            loss = self(batch).mean()
            loss.backward()  # <-
            return loss

        def configure_optimizers(self):
            return torch.optim.Adam(self.parameters())

Bad: two optimizers

    # file: requirements.txt
    lightning==2.5.1
    # file: gan.py
    import lightning as L
    import torch

    class Gan(L.LightningModule):
        def training_step(self, batch, batch_idx):
            return self(batch).mean()

        def configure_optimizers(self):
            return [torch.optim.Adam(self.g.parameters()), torch.optim.Adam(self.d.parameters())]  # <-

Bad: the Trainer would clip

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
            return torch.optim.Adam(self.parameters())

    L.Trainer(max_epochs=3, gradient_clip_val=1.0).fit(Net())  # <-

Good:

    import lightning as L
    import torch

    class Gan(L.LightningModule):
        def __init__(self):
            super().__init__()
            self.automatic_optimization = False

        def training_step(self, batch, batch_idx):
            for optimizer in self.optimizers():
                optimizer.zero_grad()
                self.manual_backward(self(batch).mean())
                optimizer.step()

        def configure_optimizers(self):
            return [torch.optim.Adam(self.g.parameters()), torch.optim.Adam(self.d.parameters())]

Quiet: helpers of the module do it

    import lightning as L
    import torch

    class Gan(L.LightningModule):
        def __init__(self):
            super().__init__()
            self.automatic_optimization = False

        def training_step(self, batch, batch_idx):
            self.update(self.optimizers(), self(batch).mean())

        def update(self, optimizer, loss):
            optimizer.zero_grad()
            self.manual_backward(loss)
            optimizer.step()

        def configure_optimizers(self):
            return torch.optim.Adam(self.parameters())
"""

import ast

from gpuproof.findings import Severity
from gpuproof.linter.analysis.call import Call, calls_named, calls_within, origin_call
from gpuproof.linter.analysis.flow.call_targets import Definition
from gpuproof.linter.analysis.flow.called import calls_within_program
from gpuproof.linter.analysis.flow.creations import returned_values
from gpuproof.linter.analysis.module import Module
from gpuproof.linter.analysis.syntax_index import FunctionNode, callee_name
from gpuproof.linter.knowledge.frameworks.torch import is_test
from gpuproof.linter.knowledge.trainers.lightning import Owner, hooks, is_manual, model_of, owners, runs
from gpuproof.linter.knowledge.trainers.releases import is_at_least, unsure
from gpuproof.linter.project import Project
from gpuproof.linter.rule import Hits, Rule, lowered

rule = Rule(
    "LT110",
    "manual-optimization",
    Severity.ERROR,
    needs=("training_step", "gradient_clip_val", "accumulate_grad_batches"),
)

_OF_TRAINER = ("gradient_clip_val", "accumulate_grad_batches")


@rule.module
def check(module: Module, project: Project) -> Hits:
    if is_test(module):
        return
    for owner in owners(module, "LightningModule"):
        step = hooks(owner).get("training_step")
        manual = is_manual(module, owner) if step is not None else None
        if step is None or manual is None:
            continue
        if manual:
            yield from _of_manual(module, owner, step)
        else:
            yield from _of_automatic(module, step)
            yield from _several_optimizers(module, project, owner)
    yield from _of_trainers(module)


def _of_manual(module: Module, owner: Owner, step: FunctionNode) -> Hits:
    """Steps that a module which optimizes itself leaves out."""
    called = {callee_name(node) for _, node in calls_within_program(module, step)}
    # A method that is only named, `loss.backward`, is another rule's finding.
    passes_on = _passes_on(step) or _names_backward(module, step)
    if not called & {"backward", "manual_backward"} and not passes_on:
        yield rule.hit(
            module.span(step),
            f"Nothing in `training_step` of `{owner.node.name}` computes gradients, and Lightning does not with "
            "automatic_optimization = False: nothing is trained.",
            remedy="Call self.manual_backward(loss) before optimizer.step().",
        )
        return
    if not called & {"step", "toggle_optimizer"} and not passes_on:
        yield rule.hit(
            module.span(step),
            f"Nothing in `training_step` of `{owner.node.name}` steps an optimizer, and Lightning does not with "
            "automatic_optimization = False: nothing is trained.",
            remedy="Call self.optimizers().step() after self.manual_backward(loss).",
        )


def _passes_on(step: FunctionNode) -> bool:
    """Whether a step leaves its work to something that is not seen: a strategy, or a method of `super()`."""
    return any(isinstance(node, ast.Name) and node.id == "super" for node in ast.walk(step)) or any(
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and isinstance(node.func.value, ast.Attribute)
        and any(word in node.func.attr for word in ("step", "train", "update", "optimize", "backward"))
        for node in ast.walk(step)
    )


def _names_backward(module: Module, step: FunctionNode) -> bool:
    """Whether a step names `backward` without calling it."""
    return any(
        isinstance(node, ast.Attribute)
        and node.attr in ("backward", "manual_backward")
        and not isinstance(module.parent(node), ast.Call)
        for node in ast.walk(step)
    )


def _of_automatic(module: Module, step: FunctionNode) -> Hits:
    """Calls that compute gradients a second time."""
    for call in calls_within(calls_named(module, "backward", "manual_backward"), step):
        if call.receiver is None or _is_without_lightning(call):
            continue
        if call.method == "manual_backward":
            why = "`manual_backward` is for manual optimization: MisconfigurationException."
        else:
            why = f"`{module.text(call.node)}` computes the gradients that Lightning computes itself after the step."
        yield rule.hit(
            call.span,
            why,
            remedy="Remove it and return the loss, or set self.automatic_optimization = False in __init__.",
            severity=rule.severity
            if call.method == "manual_backward" or _returns(module, step)
            else lowered(rule.severity),
        )


def _is_without_lightning(call: Call) -> bool:
    """Whether gradients are computed for something else than the step: `retain_graph`, `inputs=`."""
    return bool(call.keywords) or (call.name or "").startswith("torch.autograd")


def _returns(module: Module, step: FunctionNode) -> bool:
    return bool(returned_values(Definition(module, step)))


def _several_optimizers(module: Module, project: Project, owner: Owner) -> Hits:
    method = hooks(owner).get("configure_optimizers")
    if method is None:
        return
    for value in returned_values(Definition(module, method)):
        listed = _optimizers(module, value)
        if listed is None or len(listed) < 2:
            continue
        is_new = is_at_least(module, project, "lightning", "2.0")
        if is_new == "no":
            return
        yield rule.hit(
            module.span(value),
            f"{len(listed)} optimizers with automatic optimization: RuntimeError in Lightning 2.",
            remedy="Set self.automatic_optimization = False, and step each of self.optimizers() in training_step.",
            severity=rule.severity if is_new == "yes" else unsure(module, project, "lightning"),
        )


def _optimizers(module: Module, value: ast.expr) -> list[ast.expr] | None:
    """The optimizers in what `configure_optimizers` returns; None if that is unknown."""
    value = module.origin(value) or value
    if (
        isinstance(value, ast.Tuple)
        and len(value.elts) == 2
        and isinstance(module.origin(value.elts[0]), ast.List)
    ):
        value = module.origin(value.elts[0]) or value
    if not isinstance(value, (ast.List, ast.Tuple)):
        return None
    made = [origin_call(module, element) for element in value.elts]
    if any(call is None or not (call.name or "").startswith("torch.optim.") for call in made):
        return None
    if any("lr_scheduler" in (call.name or "") for call in made if call is not None):
        return None
    return list(value.elts)


def _of_trainers(module: Module) -> Hits:
    """Arguments of the Trainer that a model which optimizes itself forbids."""
    for run in runs(module, "fit"):
        for name in _OF_TRAINER:
            value = run.trainer.argument(name)
            if (
                not value.is_sure
                or value.number is None
                or (name == "accumulate_grad_batches" and value.number <= 1)
            ):
                continue
            model = model_of(run)
            if model is None or not isinstance(model.node, ast.ClassDef):
                continue
            if is_manual(model.module, Owner(model.node, "LightningModule")) is not True or not value.number:
                continue
            yield rule.hit(
                run.trainer.module.span(run.trainer.expression(name) or run.trainer.node),
                f"`{name}` with `{model.node.name}`, which uses manual optimization: MisconfigurationException.",
                remedy=f"Remove {name}, and do this in training_step.",
                severity=rule.severity if value.is_known else lowered(rule.severity),
            )
