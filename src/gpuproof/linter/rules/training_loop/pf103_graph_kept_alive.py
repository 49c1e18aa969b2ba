"""Adding a loss to a running total keeps the graph of every step in memory.

`total += loss`, or `total = total + loss`, makes the total a tensor that requires gradients: autograd's graph grows with
every batch until the epoch ends or GPU memory is full, often hours into a run. Use a number instead: `loss.item()`, or
`loss.detach()`, which does not wait for the GPU. PyTorch's FAQ describes this under "My model reports cuda runtime
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
"""

import ast
import re
from collections.abc import Iterator

from gpuproof.findings import Severity
from gpuproof.linter.analysis.call import Call, calls_named, calls_within
from gpuproof.linter.analysis.module import Module
from gpuproof.linter.analysis.usage import uses
from gpuproof.linter.fixing.edits import replace_node
from gpuproof.linter.knowledge.torch import is_inside_with, is_test
from gpuproof.linter.project import Project
from gpuproof.linter.rule import Hits, Rule
from gpuproof.linter.source.edit import Fix

_NUMBERS = re.compile(r"(^|\.)(item|detach|numpy|tolist|float|no_grad)$")
_DATA = re.compile(r"^data$")

rule = Rule("PF103", "graph-kept-alive", Severity.ERROR, needs=("backward",))


@rule.module
def check(module: Module, _: Project) -> Hits:
    if not module.imports("torch") or is_test(module):
        return
    backwards = [call for call in calls_named(module, "backward") if call.receiver is not None]
    differentiated = {
        module.text(backward.receiver) for backward in backwards if backward.receiver is not None
    }
    for statement, target, added in _sums(module):
        loops = module.loops_around(statement)
        if not loops:
            continue
        total = module.text(target)
        if total in differentiated or is_inside_with(module, statement, ("no_grad", "inference_mode")):
            continue
        loss = _loss(module, added, backwards, loops[0])
        if loss is None or _is_reset(module, total, loops[0], statement):
            continue
        yield rule.hit(
            module.span(statement),
            f"`{module.text(statement)}` keeps the graph of every step in memory: GPU memory grows until it is full.",
            remedy=f"Add {loss.id}.detach(), and call .item() on the total once at the end.",
            fix=Fix("Add .detach()", (replace_node(module, loss, f"{loss.id}.detach()"),), safe=True),
        )


def _sums(module: Module) -> Iterator[tuple[ast.stmt, ast.expr, ast.expr]]:
    """Statements that add to a total, the total, and what they add: `total += loss`, `total = total + loss`."""
    for statement in module.nodes(ast.AugAssign):
        if isinstance(statement.op, ast.Add) and isinstance(statement.target, (ast.Name, ast.Attribute)):
            yield statement, statement.target, statement.value
    for statement in module.nodes(ast.Assign):
        target, value = statement.targets[0], statement.value
        if not isinstance(target, (ast.Name, ast.Attribute)) or not isinstance(value, ast.BinOp):
            continue
        if not isinstance(value.op, ast.Add):
            continue
        for total, added in ((value.left, value.right), (value.right, value.left)):
            if isinstance(total, (ast.Name, ast.Attribute)) and module.text(total) == module.text(target):
                yield statement, target, added
                break


def _loss(module: Module, added: ast.expr, backwards: list[Call], loop: ast.AST) -> ast.Name | None:
    """The added name that is certainly a tensor with a graph; None otherwise."""
    names = [added.left, added.right] if isinstance(added, ast.BinOp) else [added]
    for node in names:
        if not isinstance(node, ast.Name):
            continue
        inside = calls_within(backwards, loop)
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
        module.text(target) == total
        for node in module.nodes(ast.Assign)
        if node is not statement and module.tree.is_within(node, loop)
        for target in node.targets
    )
