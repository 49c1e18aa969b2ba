"""Gradients are accumulated over several batches, but the loss is not divided by their number.

`backward()` adds gradients. With a step every N batches, the gradient is the sum of N losses, not their mean: N times as
large. With SGD this is N times the learning rate, gradient clipping cuts almost every step, and training diverges or
learns something else than with the large batch that was meant. Accelerate and DeepSpeed divide by themselves. The rule
reports loops in which `step()` and `zero_grad()` are in a branch that is taken every N batches, `backward()` is outside
of it, and nothing in the loop divides.

Bad:

    import torch

    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for i, (x, y) in enumerate([]):
        loss = torch.nn.functional.mse_loss(model(x), y)
        loss.backward()  # <-
        if (i + 1) % 4 == 0:
            optimizer.step()
            optimizer.zero_grad()

Good:

    import torch

    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for i, (x, y) in enumerate([]):
        loss = torch.nn.functional.mse_loss(model(x), y) / 4
        loss.backward()
        if (i + 1) % 4 == 0:
            optimizer.step()
            optimizer.zero_grad()

Quiet: each batch is a step of its own

    import torch

    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for i, (x, y) in enumerate([]):
        optimizer.zero_grad()
        loss = torch.nn.functional.mse_loss(model(x), y)
        loss.backward()
        optimizer.step()
        if i % 100 == 0:
            print(loss.item())

Quiet: the loss is a sum, and the gradients are divided

    import torch

    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for i, (x, y) in enumerate([]):
        torch.nn.functional.mse_loss(model(x), y).backward()
        if (i + 1) % 4 == 0:
            for parameter in model.parameters():
                parameter.grad.div_(4)
            optimizer.step()
            optimizer.zero_grad()
"""

import ast
import re

from gpuproof.findings import Severity
from gpuproof.linter.analysis.call import Call, all_calls, calls_named, calls_within
from gpuproof.linter.analysis.evaluation.evaluate import evaluate
from gpuproof.linter.analysis.module import Module
from gpuproof.linter.analysis.usage import uses
from gpuproof.linter.knowledge.frameworks.torch import changes_gradients, imports_device_manager, is_test
from gpuproof.linter.project import Project
from gpuproof.linter.rule import Hits, Rule

rule = Rule("PF120", "accumulation-not-divided", Severity.WARNING, needs=("backward",))

_DIVIDES = re.compile(r"(^|\.)(div_?|true_divide|mul_?|divide|mean_over\w*|multiply)$")
_SAME = 1e-6


@rule.module
def check(module: Module, _: Project) -> Hits:
    if not module.imports("torch") or is_test(module) or imports_device_manager(module):
        return
    for branch in module.nodes(ast.If):
        loops = module.loops_around(branch)
        count = _interval(module, branch.test)
        if not loops or count is None:
            continue
        loop = loops[0]
        steps, clears = (calls_within(calls_named(module, name), branch) for name in ("step", "zero_grad"))
        backwards = [
            call
            for call in calls_within(calls_named(module, "backward"), loop)
            if call.receiver is not None and module.loops_around(call.node)[:1] == [loop]
        ]
        # The same step outside of the branch: the branch only logs.
        stepped = {module.text(call.node.func) for call in (*steps, *clears)}
        others = [
            call
            for call in calls_within(calls_named(module, "step", "zero_grad"), loop)
            if not module.tree.is_within(call.node, branch) and module.text(call.node.func) in stepped
        ]
        if not steps or not clears or len(backwards) != 1 or others:
            continue
        if module.tree.is_within(backwards[0].node, branch) or _may_divide(module, loop, backwards[0], count):
            continue
        yield rule.hit(
            backwards[0].span,
            f"`{module.text(backwards[0].node)}` adds up the gradients of {_shown(module, count)} batches, and nothing divides "
            "them: each step is as many times too large.",
            remedy=f"Divide the loss: (loss / {module.text(count)}).backward().",
        )


def _interval(module: Module, test: ast.expr) -> ast.expr | None:
    """The N of a test such as `(i + 1) % N == 0`, also with `or` for the last batch; None for other tests, and N of 1."""
    for node in ast.walk(test):
        if (
            isinstance(node, ast.BinOp)
            and isinstance(node.op, ast.Mod)
            and not isinstance(node.left, ast.Constant)
        ):
            number = evaluate(module, node.right).number
            return None if number is not None and number < 2 else node.right
    return None


def _may_divide(module: Module, loop: ast.AST, backward: Call, count: ast.expr) -> bool:
    """Whether code of the loop may divide the loss or the gradients, or gets the number of batches that it may divide by."""
    if any(
        isinstance(node, (ast.BinOp, ast.AugAssign))
        and _scales(module, node, count)
        and _is_of_loss(module, node, backward)
        for node in ast.walk(loop)
    ):
        return True
    if uses(module, _DIVIDES, "call", within=loop) or changes_gradients(module, loop):
        return True
    if any(call.argument("reduction").text == "sum" for call in all_calls(module)):
        return True
    named = module.text(count)
    for call in all_calls(module):
        given = [*call.node.args, *call.keywords.values()]
        inside = module.tree.is_within(call.node, loop)
        if (
            not isinstance(count, ast.Constant)
            and inside
            and any(named in module.text(item) for item in given)
        ):
            return True
    # An engine of a library, whose backward divides.
    return not isinstance(backward.receiver, (ast.Name, ast.Call)) or bool(backward.node.args)


def _scales(module: Module, node: ast.BinOp | ast.AugAssign, count: ast.expr) -> bool:
    """Whether an operation divides, or multiplies by something that is made from the number of batches."""
    if isinstance(node.op, ast.Div):
        return True
    if not isinstance(node.op, ast.Mult):
        return False
    number = evaluate(module, count).number
    factors = [node.left, node.right] if isinstance(node, ast.BinOp) else [node.value]
    values = [evaluate(module, factor).number for factor in factors]
    known = number is not None and any(
        value is not None and abs(value * number - 1) < _SAME for value in values
    )
    return known or any(
        isinstance(factor, ast.Name) and not isinstance(evaluate(module, factor).number, int)
        for factor in factors
    )


def _is_of_loss(module: Module, node: ast.BinOp | ast.AugAssign, backward: Call) -> bool:
    """Whether a division changes the loss: not a mean that is printed."""
    statement = module.tree.statement(node)
    if statement is None or module.tree.is_within(backward.node, statement):
        return True
    names = {child.id for child in ast.walk(backward.node) if isinstance(child, ast.Name)}
    targets = (
        statement.targets
        if isinstance(statement, ast.Assign)
        else [statement.target]
        if isinstance(statement, (ast.AugAssign, ast.AnnAssign))
        else []
    )
    if not targets:
        return False
    # Anything that the loss may be made from, such as a loss function's own terms.
    assigned = {child.id for target in targets for child in ast.walk(target) if isinstance(child, ast.Name)}
    return bool(assigned & _sources(module, names, backward))


def _sources(module: Module, names: set[str], backward: Call) -> set[str]:
    """The names from which the loss is computed, directly or not."""
    found = set(names)
    for _ in range(4):
        for node in module.nodes(ast.Assign):
            if module.function_of(node) is not module.function_of(backward.node):
                continue
            if any(
                isinstance(child, ast.Name) and child.id in found
                for target in node.targets
                for child in ast.walk(target)
            ):
                found |= {child.id for child in ast.walk(node.value) if isinstance(child, ast.Name)}
    return found


def _shown(module: Module, count: ast.expr) -> str:
    number = evaluate(module, count).number
    return str(number) if number is not None else f"`{module.text(count)}`"
