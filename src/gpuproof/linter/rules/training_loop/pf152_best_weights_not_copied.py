"""The best weights are kept by reference: further training changes them, and the last model is saved instead of the best.

`model.state_dict()` contains the model's own tensors, and `best = model` is the same model. The optimizer changes both in place at every
step, so that at the end the "best" weights are simply the last ones. Use `copy.deepcopy`, or save to a file.

Bad:

    import copy
    import torch

    def train(model, loader, optimizer, evaluate, device):
        best_accuracy, best_weights = 0.0, None
        for epoch in range(10):
            model.train()
            for x, y in loader:
                optimizer.zero_grad()
                torch.nn.functional.cross_entropy(model(x.to(device)), y.to(device)).backward()
                optimizer.step()
            accuracy = evaluate(model)
            if accuracy > best_accuracy:
                best_accuracy = accuracy
                best_weights = model.state_dict()  # <-
        model.load_state_dict(best_weights)

Fixed:

    import copy
    import torch

    def train(model, loader, optimizer, evaluate, device):
        best_accuracy, best_weights = 0.0, None
        for epoch in range(10):
            model.train()
            for x, y in loader:
                optimizer.zero_grad()
                torch.nn.functional.cross_entropy(model(x.to(device)), y.to(device)).backward()
                optimizer.step()
            accuracy = evaluate(model)
            if accuracy > best_accuracy:
                best_accuracy = accuracy
                best_weights = copy.deepcopy(model.state_dict())
        model.load_state_dict(best_weights)

Bad: the model itself

    import torch

    def train(net, optimizer, evaluate):
        lowest = float("inf")
        for epoch in range(10):
            net(torch.ones(4)).sum().backward()
            optimizer.step()
            optimizer.zero_grad()
            loss = evaluate(net)
            if loss < lowest:
                lowest = loss
                best_model = net  # <-
        torch.save(best_model.state_dict(), "/opt/ml/model/model.pt")

Good:

    import copy
    import torch

    def train(model, optimizer, evaluate):
        best_weights, lowest = copy.deepcopy(model.state_dict()), float("inf")
        for epoch in range(10):
            model(torch.ones(4)).sum().backward()
            optimizer.step()
            optimizer.zero_grad()
            loss = evaluate(model)
            if loss < lowest:
                lowest = loss
                best_weights = copy.deepcopy(model.state_dict())
        model.load_state_dict(best_weights)

Quiet: saved at once, or another model

    import torch

    def train(model, optimizer, evaluate, candidates):
        best = None
        for epoch in range(10):
            model(torch.ones(4)).sum().backward()
            optimizer.step()
            optimizer.zero_grad()
            if evaluate(model) > 0.9:
                state = model.state_dict()
                torch.save(state, "/opt/ml/checkpoints/best.pt")
        for candidate in candidates:
            if evaluate(candidate) > 0.9:
                best = candidate
        return best
"""

import ast
import re

from gpuproof.findings import Severity
from gpuproof.linter.analysis.call import calls_named, calls_within
from gpuproof.linter.analysis.module import Module
from gpuproof.linter.fixing.edits import wrap
from gpuproof.linter.knowledge.frameworks.torch import is_test
from gpuproof.linter.project import Project
from gpuproof.linter.rule import Hits, Rule
from gpuproof.linter.source.edit import Fix

rule = Rule("PF152", "best-weights-not-copied", Severity.ERROR, needs=("state_dict",))

_BEST = re.compile(r"best", re.IGNORECASE)


@rule.module
def check(module: Module, _: Project) -> Hits:
    if not module.imports("torch") or is_test(module):
        return
    for statement in module.nodes(ast.Assign):
        target = statement.targets[0]
        if len(statement.targets) != 1 or not isinstance(target, (ast.Name, ast.Attribute)):
            continue
        model = _kept_model(statement.value)
        loops = module.loops_around(statement)
        if model is None or not loops or not _BEST.search(module.text(target)):
            continue
        branch = module.enclosing(statement, ast.If)
        if branch is None or not module.tree.is_within(branch, loops[-1]):
            continue
        is_state = isinstance(statement.value, ast.Call)
        if not is_state and not re.search(r"model|net|best$", module.text(target).lower()):
            continue
        if not _is_trained_further(module, model, loops[-1]) or not _is_used_later(
            module, target, loops[-1], statement
        ):
            continue
        yield rule.hit(
            module.span(statement),
            f"`{module.text(target)}` refers to the weights themselves: further training of `{module.text(model)}` changes them.",
            remedy=f"Write copy.deepcopy({module.text(statement.value)}).",
            fix=Fix("Copy it", wrap(module, statement.value, "copy.deepcopy(", ")"), safe=True)
            if module.names.imports.get("copy") == "copy"
            else None,
        )


def _kept_model(value: ast.expr) -> ast.expr | None:
    """The model of `model.state_dict()`, or of `model` itself."""
    match value:
        case ast.Call(func=ast.Attribute(value=model, attr="state_dict"), args=[], keywords=[]):
            return model if isinstance(model, (ast.Name, ast.Attribute)) else None
        case ast.Name() | ast.Attribute():
            return value
        case _:
            return None


def _is_trained_further(module: Module, model: ast.expr, loop: ast.AST) -> bool:
    """Whether the loop trains this model: it computes gradients, or a function that gets the model does, and never replaces it."""
    text = module.text(model)
    replaced = any(
        module.text(node) == text
        for node in module.nodes(ast.Name, ast.Attribute)
        if isinstance(node.ctx, ast.Store) and module.tree.is_within(node, loop)
    )
    if replaced:
        return False
    called = any(
        module.text(child.func) == text
        for child in module.nodes(ast.Call)
        if module.tree.is_within(child, loop)
    )
    return (
        called
        and bool(calls_within(calls_named(module, "backward"), loop))
        and bool(calls_within(calls_named(module, "step"), loop))
    )


def _is_used_later(module: Module, target: ast.expr, loop: ast.AST, statement: ast.stmt) -> bool:
    """Whether the kept weights are used after the loop, and not saved in the same branch already."""
    text = module.text(target)
    function = module.function_of(loop)
    end = getattr(loop, "end_lineno", 0)
    uses = [
        node
        for node in module.nodes(ast.Name, ast.Attribute)
        if isinstance(node.ctx, ast.Load)
        and module.text(node) == text
        and module.function_of(node) is function
    ]
    branch = module.enclosing(statement, ast.If)
    if branch is not None and any(module.tree.is_within(use, branch) for use in uses):
        return False
    return any(use.lineno > end for use in uses)
