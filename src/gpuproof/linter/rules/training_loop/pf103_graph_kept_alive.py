"""Adding a loss to a running total, or to a list, keeps the graph of every step in memory.

`total += loss`, or `total = total + loss`, makes the total a tensor that requires gradients: autograd's graph grows with
every batch until the epoch ends or GPU memory is full, often hours into a run. Use a number instead: `loss.item()`, or
`loss.detach()`, which does not wait for the GPU. A list of losses (`losses.append(loss)`) keeps one graph for each step, in
a loop as in the `training_step` of Lightning; its buffers are freed by `backward()`, so this is a warning. PyTorch's FAQ describes this under "My model reports cuda runtime
error(2)".

Bad: written as a sum

    import torch
    from torch.utils.data import DataLoader

    model = torch.nn.Linear(4, 1)
    total = 0.0
    for x, y in DataLoader([]):
        loss = torch.nn.functional.mse_loss(model(x), y)
        loss.backward()
        total = total + loss  # <-

Bad:

    import torch
    from torch.utils.data import DataLoader

    model = torch.nn.Linear(4, 1)
    running_loss = 0.0
    for x, y in DataLoader([]):
        loss = torch.nn.functional.mse_loss(model(x), y)
        loss.backward()
        running_loss += loss  # <-

Fixed:

    import torch
    from torch.utils.data import DataLoader

    model = torch.nn.Linear(4, 1)
    running_loss = 0.0
    for x, y in DataLoader([]):
        loss = torch.nn.functional.mse_loss(model(x), y)
        loss.backward()
        running_loss += loss.detach()

Bad: mixed precision, and a loss that is weighted by the batch

    import torch

    model = torch.nn.Linear(4, 1).cuda()
    scaler = torch.amp.GradScaler("cuda")
    total = 0.0
    for x in range(3):
        batch = torch.ones(8, 4).cuda()
        loss = model(batch).mean()
        scaler.scale(loss).backward()
        total += loss * batch.size(0)  # <-

Bad: a list of losses

    import torch
    from torch.utils.data import DataLoader

    model = torch.nn.Linear(4, 1)
    losses = []
    for x, y in DataLoader([]):
        loss = torch.nn.functional.mse_loss(model(x), y)
        loss.backward()
        losses.append(loss)  # <-

Fixed:

    import torch
    from torch.utils.data import DataLoader

    model = torch.nn.Linear(4, 1)
    losses = []
    for x, y in DataLoader([]):
        loss = torch.nn.functional.mse_loss(model(x), y)
        loss.backward()
        losses.append(loss.detach())

Bad: Lightning runs backward on what the step returns

    import lightning as L
    import torch

    class Net(L.LightningModule):
        def __init__(self):
            super().__init__()
            self.losses = []

        def training_step(self, batch, index):
            loss = self.layer(batch).mean()
            self.losses.append(loss)  # <-
            return {"loss": loss}

Bad: the results of a model that only scores

    import torch

    class Scorer:
        def __init__(self):
            self.model = torch.nn.Linear(4, 2).cuda()

        def run(self, batches):
            results = []
            for x in batches:
                scores = self.model(x.cuda())
                results.append(scores)  # <-
            return torch.cat(results)

Bad: a total of the trainer, in a method that the loop calls

    import torch

    class Trainer:
        def __init__(self):
            self.model = torch.nn.Linear(4, 1)
            self.total = 0.0

        def fit(self, loader):
            for x in loader:
                self.step(x)

        def step(self, x):
            loss = self.model(x).mean()
            loss.backward()
            self.total += loss  # <-

Quiet: the list is emptied after each epoch, as Lightning's documentation does it

    import lightning as L
    import torch

    class Net(L.LightningModule):
        def training_step(self, batch, index):
            loss = self.layer(batch).mean()
            self.losses.append(loss)
            return loss

        def on_train_epoch_end(self):
            self.log("mean", torch.stack(self.losses).mean())
            self.losses.clear()

Quiet: backward runs on all losses of the list, a number is kept, or only the last losses

    from collections import deque
    import torch

    model = torch.nn.Linear(4, 1)
    values, recent, parts = [], deque(maxlen=10), []
    for x in [torch.ones(4)]:
        loss = model(x).mean()
        parts.append(loss)
        loss = torch.stack(parts).sum()
        loss.backward()
        parts = []
        recent.append(loss)
        loss = loss.item()
        values.append(loss)

Bad: entries of a dictionary

    import torch

    model = torch.nn.Linear(4, 1)
    history = {"total": 0.0, "losses": []}
    for x in torch.utils.data.DataLoader([]):
        loss = model(x).mean()
        loss.backward()
        history["total"] += loss  # <-
        history["losses"].append(loss)  # <-

Good:

    import torch
    from torch.utils.data import DataLoader

    model = torch.nn.Linear(4, 1)
    running_loss = 0.0
    for x, y in DataLoader([]):
        loss = torch.nn.functional.mse_loss(model(x), y)
        loss.backward()
        running_loss += loss.item() * x.size(0)

Quiet: backward runs on the sum

    import torch

    model = torch.nn.Linear(4, 1)
    for sequence in [[]]:
        total = 0
        for x in sequence:
            loss = model(x).sum()
            total += loss
        total.backward()

Quiet: without gradients

    import torch

    model = torch.nn.Linear(4, 1)
    total = 0
    with torch.no_grad():
        for x in []:
            loss = model(x).sum()
            total += loss

Quiet: a part of a model keeps what its next layers need

    import torch

    class Stack(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = torch.nn.Linear(4, 4)

        def forward(self, parts):
            outputs = []
            for x in parts:
                outputs.append(self.layer(x))
            print(len(outputs))
            return x
"""

import ast
import re
from collections.abc import Iterator

from gpuproof.findings import Severity
from gpuproof.linter.analysis.call import Call, calls_named, calls_within
from gpuproof.linter.analysis.flow.repeats import repeats
from gpuproof.linter.analysis.module import Module
from gpuproof.linter.analysis.scopes import Binding
from gpuproof.linter.analysis.usage import uses
from gpuproof.linter.fixing.edits import replace_node
from gpuproof.linter.knowledge.frameworks.torch import is_inside_with, is_lightning_module, is_test
from gpuproof.linter.knowledge.training.kept_results import (
    is_emptied,
    is_place,
    kept_losses,
    kept_results,
    sums,
)
from gpuproof.linter.project import Project
from gpuproof.linter.rule import Hits, Rule
from gpuproof.linter.source.edit import Fix

_NUMBERS = re.compile(r"(^|\.)(item|detach|numpy|tolist|float|no_grad)$")
_DATA = re.compile(r"^data$")

rule = Rule("PF103", "graph-kept-alive", Severity.ERROR, needs=("backward", "LightningModule", ".append("))


@rule.module
def check(module: Module, _: Project) -> Hits:
    if not module.imports("torch") or is_test(module):
        return
    backwards = [call for call in calls_named(module, "backward") if call.receiver is not None]
    differentiated = {
        module.text(backward.receiver) for backward in backwards if backward.receiver is not None
    }
    for statement, target, added in sums(module):
        around = _loop_around(module, statement)
        if around is None:
            continue
        home, loop = around
        total = module.text(target)
        if total in differentiated or is_inside_with(module, statement, ("no_grad", "inference_mode")):
            continue
        loss = _loss(module, added, backwards, loop if module.tree.is_within(statement, loop) else None)
        if loss is None or _is_reset(home, total, loop, statement):
            continue
        yield rule.hit(
            module.span(statement),
            f"`{module.text(statement)}` keeps the graph of every step in memory: GPU memory grows until it is full.",
            remedy=f"Add {loss.id}.detach(), and call .item() on the total once at the end.",
            fix=Fix("Add .detach()", (replace_node(module, loss, f"{loss.id}.detach()"),), safe=True),
        )
    for call in kept_losses(module):
        yield rule.hit(
            call.span,
            f"`{module.excerpt(call.node)}` keeps the graph of every step in memory as long as the list lives.",
            remedy="Let the step return loss.detach(), or loss.item().",
            severity=Severity.WARNING,
        )
    for call in kept_results(module):
        yield rule.hit(
            call.span,
            f"`{module.excerpt(call.node)}` keeps the graph of every batch in GPU memory: the model runs with autograd enabled.",
            remedy="Run the loop under `with torch.inference_mode():`, or append the detached result.",
            severity=Severity.WARNING,
        )
    for call, loss in _appended(module, backwards):
        yield rule.hit(
            call.span,
            f"`{module.text(call.node)}` keeps the graph of every step in memory as long as the list lives.",
            remedy=f"Append {loss.id}.detach(), or {loss.id}.item(), which waits for the GPU.",
            severity=Severity.WARNING,
            fix=Fix("Add .detach()", (replace_node(module, loss, f"{loss.id}.detach()"),), safe=False),
        )


def _loop_around(module: Module, statement: ast.stmt) -> tuple[Module, ast.AST] | None:
    """The innermost loop that repeats a statement, which may be around a call of its method."""
    if loops := module.loops_around(statement):
        return module, loops[0]
    found = repeats(module, statement)
    return (found[0].module, found[0].loop) if found else None


def _appended(module: Module, backwards: list[Call]) -> Iterator[tuple[Call, ast.Name]]:
    """The calls that append a loss with its graph to a list which nothing empties, and the loss."""
    for call in calls_named(module, "append"):
        loss = call.node.args[0] if len(call.node.args) == 1 else None
        kept = call.receiver
        if not isinstance(loss, ast.Name) or kept is None or not is_place(kept):
            continue
        bindings = module.reaching(loss)
        values = [binding.value for binding in bindings]
        if not values or any(value is None or _is_number(module, value) for value in values):
            continue
        if not _is_step_of_lightning(module, loss) and not _runs_backward(module, bindings, call, backwards):
            continue
        if not is_emptied(module, kept, call) and not is_inside_with(
            module, call.node, ("no_grad", "inference_mode")
        ):
            yield call, loss


def _is_step_of_lightning(module: Module, loss: ast.Name) -> bool:
    """Whether a loss is what the `training_step` around it returns, on which Lightning runs backward."""
    step, owner = module.function_of(loss), module.enclosing(loss, ast.ClassDef)
    if (
        step is None
        or owner is None
        or step.name != "training_step"
        or not is_lightning_module(module, owner)
    ):
        return False
    bindings = module.reaching(loss)
    return any(
        isinstance(name, ast.Name) and name.id == loss.id and module.reaching(name) == bindings
        for returned in module.nodes(ast.Return)
        if module.function_of(returned) is step and returned.value is not None
        for name in (
            returned.value,
            *(returned.value.values if isinstance(returned.value, ast.Dict) else ()),
        )
    )


def _runs_backward(module: Module, bindings: list[Binding], call: Call, backwards: list[Call]) -> bool:
    """Whether backward runs in the loop around a call on a loss with one of these bindings."""
    loops = module.loops_around(call.node)
    inside = calls_within(backwards, loops[0]) if loops else []
    return any(
        isinstance(name, ast.Name) and name.id == _differentiated(backward) and binding in bindings
        for backward in inside
        if backward.receiver is not None
        for name in ast.walk(backward.receiver)
        if isinstance(name, ast.Name)
        for binding in module.reaching(name)
    )


def _loss(module: Module, added: ast.expr, backwards: list[Call], loop: ast.AST | None) -> ast.Name | None:
    """The added name that is certainly a tensor with a graph; None otherwise."""
    names = [added.left, added.right] if isinstance(added, ast.BinOp) else [added]
    for node in names:
        if not isinstance(node, ast.Name):
            continue
        function = module.function_of(node)
        inside = (
            calls_within(backwards, loop)
            if loop is not None
            else [call for call in backwards if module.function_of(call.node) is function]
        )
        if node.id not in {loss for item in inside if (loss := _differentiated(item)) is not None}:
            continue
        values = [binding.value for binding in module.reaching(node)]
        # Excludes an earlier `loss = loss.item()` and unknown values.
        if values and all(value is not None and not _is_number(module, value) for value in values):
            return node
    return None


def _differentiated(backward: Call) -> str | None:
    """The name of the loss of `loss.backward()`, `scaler.scale(loss).backward()` or `(loss / steps).backward()`."""
    match backward.receiver:
        case ast.Name(id=name):
            return name
        case ast.Call(func=ast.Attribute(attr="scale"), args=[ast.Name(id=name)]):
            return name
        case ast.BinOp(left=ast.Name(id=name), op=ast.Div()):
            return name
        case _:
            return None


def _is_number(module: Module, value: ast.expr) -> bool:
    return uses(module, _NUMBERS, "call", within=value) or uses(module, _DATA, "attribute", within=value)


def _is_reset(module: Module, total: str, loop: ast.AST, statement: ast.stmt) -> bool:
    """Whether the body of the loop assigns a new value to the total, so that it cannot grow."""
    return any(
        module.text(target) in (total, total.partition("[")[0])
        for node in module.nodes(ast.Assign)
        if node is not statement and module.tree.is_within(node, loop)
        for target in node.targets
    )
