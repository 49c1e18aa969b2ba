"""A moving average of weights is computed in a way that changes nothing, or that keeps autograd's graph.

`for p, q in zip(ema.parameters(), model.parameters()): p = 0.99 * p + 0.01 * q` binds a name and leaves the parameter as it is: the average stays
at the first weights. In place but without `no_grad`, `p.mul_(0.99).add_(q)` is an error if `p` requires gradients, and otherwise
records a graph that grows with every step, until memory is full.

Bad: no effect

    import torch

    def update(ema, model, decay=0.999):
        with torch.no_grad():
            for ours, theirs in zip(ema.parameters(), model.parameters()):
                ours = decay * ours + (1 - decay) * theirs  # <-

Bad: a growing graph

    import copy
    import torch

    def train(model, loader, optimizer, device):
        ema = copy.deepcopy(model).requires_grad_(False)
        for x, y in loader:
            optimizer.zero_grad()
            torch.nn.functional.mse_loss(model(x.to(device)), y.to(device)).backward()
            optimizer.step()
            for p, q in zip(ema.parameters(), model.parameters()):
                p.lerp_(q, 0.001)  # <-

Good:

    import torch

    def update(ema, model, decay=0.999):
        with torch.no_grad():
            for ours, theirs in zip(ema.parameters(), model.parameters()):
                ours.lerp_(theirs, 1 - decay)

Quiet: on the data, or a list of new values

    import torch

    def update(ema, model, decay=0.999):
        for ours, theirs in zip(ema.parameters(), model.parameters()):
            ours.data.mul_(decay).add_(theirs.data, alpha=1 - decay)
        values = []
        for ours, theirs in zip(ema.parameters(), model.parameters()):
            ours = decay * ours + (1 - decay) * theirs
            values.append(ours)
        return values

Quiet: a function without gradients calls it

    import torch

    def mix(ema, model):
        for p, q in zip(ema.parameters(), model.parameters()):
            p.lerp_(q, 0.001)

    @torch.no_grad()
    def update(ema, model):
        mix(ema, model)
"""

import ast

from gpuproof.findings import Severity
from gpuproof.linter.analysis.call import calls_named, calls_within
from gpuproof.linter.analysis.flow.call_sites import call_sites
from gpuproof.linter.analysis.module import Module
from gpuproof.linter.knowledge.frameworks.torch import is_inside_with, is_test
from gpuproof.linter.project import Project
from gpuproof.linter.rule import Hits, Rule

rule = Rule("PF150", "moving-average-without-effect", Severity.ERROR, needs=("parameters",))

_WITHOUT = ("no_grad", "inference_mode", "set_grad_enabled")
_IN_PLACE = frozenset({"mul_", "lerp_", "add_", "copy_", "div_", "sub_"})


@rule.module
def check(module: Module, _: Project) -> Hits:
    if not module.imports("torch") or is_test(module):
        return
    for loop in module.nodes(ast.For):
        pair = _parameters(module, loop)
        if pair is None:
            continue
        ours, theirs = pair
        for statement in loop.body:
            match statement:
                case ast.Assign(targets=[ast.Name(id=name)]) if name == ours and not _is_read(
                    module, loop, statement, ours
                ):
                    yield rule.hit(
                        module.span(statement),
                        f"`{ours} = ...` binds the name `{ours}` anew: the parameter stays as it is.",
                        remedy=f"Change it in place: {ours}.lerp_({theirs}, 1 - decay).",
                    )
                case ast.Expr(value=ast.Call() as call) if _averages(call, ours, theirs) and _has_gradients(
                    module, loop, 0
                ):
                    yield rule.hit(
                        module.span(statement),
                        f"`{module.excerpt(statement, 50)}` runs with autograd on: it fails, or its graph grows with every step.",
                        remedy="Put the loop inside `with torch.no_grad():`.",
                    )
                case _:
                    pass


def _parameters(module: Module, loop: ast.For) -> tuple[str, str] | None:
    """The names of two parameters in `for p, q in zip(ema.parameters(), model.parameters())`."""
    match loop:
        case ast.For(
            target=ast.Tuple(elts=[ast.Name(id=ours), ast.Name(id=theirs)]),
            iter=ast.Call(func=ast.Name(id="zip"), args=[ast.Call() as first, ast.Call() as second]),
        ):
            made = [call for call in calls_named(module, "parameters") if call.node in (first, second)]
            return (ours, theirs) if len(made) == 2 else None
        case _:
            return None


def _is_read(module: Module, loop: ast.For, statement: ast.stmt, name: str) -> bool:
    """Whether code in the loop reads the name after a statement."""
    return any(
        module.tree.is_within(use, loop) and use.lineno > (statement.end_lineno or statement.lineno)
        for use in module.tree.uses_of(name)
    )


def _averages(call: ast.Call, ours: str, theirs: str) -> bool:
    """Whether a call changes one parameter in place by the other, both with their history."""
    base: ast.expr = call
    while isinstance(base, (ast.Call, ast.Attribute)):
        if isinstance(base, ast.Attribute) and base.attr not in _IN_PLACE:
            return False
        base = base.func if isinstance(base, ast.Call) else base.value
    if not isinstance(base, ast.Name) or base.id != ours or not isinstance(call.func, ast.Attribute):
        return False
    return any(
        isinstance(argument, ast.Name) and argument.id == theirs
        for node in ast.walk(call)
        if isinstance(node, ast.Call)
        for argument in node.args
    )


def _has_gradients(module: Module, node: ast.AST, depth: int) -> bool:
    """Whether a node certainly runs with autograd on."""
    if is_inside_with(module, node, _WITHOUT) or depth > 4:
        return False
    function = module.function_of(node)
    # A function that computes gradients runs with autograd on.
    if function is None or calls_within(calls_named(module, "backward"), function):
        return True
    sites = call_sites(module, function)
    return bool(sites) and all(_has_gradients(site.module, site.call, depth + 1) for site in sites)
