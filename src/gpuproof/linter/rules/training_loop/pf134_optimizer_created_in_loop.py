"""The optimizer is created anew in the training loop: its state is lost each time.

Adam's moments, momentum and the position of a schedule are zero again at each epoch (or each batch). Adam then takes its first,
largest steps over and over, and momentum never builds up; the model trains, and worse than it should.

Bad:

    import torch

    device = torch.device("cuda")
    model = torch.nn.Linear(4, 1).to(device)
    for epoch in range(10):
        optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)  # <-
        for x, y in torch.utils.data.DataLoader([]):
            optimizer.zero_grad()
            torch.nn.functional.mse_loss(model(x.to(device)), y.to(device)).backward()
            optimizer.step()

Bad: in a function for one epoch

    import torch

    def train_epoch(model, loader, device):
        optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)  # <-
        for x, y in loader:
            optimizer.zero_grad()
            torch.nn.functional.mse_loss(model(x.to(device)), y.to(device)).backward()
            optimizer.step()

    def main(model, loader, device):
        for epoch in range(10):
            train_epoch(model, loader, device)

Bad: in a method for one batch

    import torch

    class Trainer:
        def __init__(self, model, loader):
            self.model, self.loader = model.cuda(), loader

        def step(self, x, y):
            optimizer = torch.optim.Adam(self.model.parameters(), lr=1e-3)  # <-
            optimizer.zero_grad()
            torch.nn.functional.mse_loss(self.model(x), y).backward()
            optimizer.step()

        def fit(self):
            for x, y in self.loader:
                self.step(x.cuda(), y.cuda())

Good:

    import torch

    device = torch.device("cuda")
    model = torch.nn.Linear(4, 1).to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    for epoch in range(10):
        for x, y in torch.utils.data.DataLoader([]):
            optimizer.zero_grad()
            torch.nn.functional.mse_loss(model(x.to(device)), y.to(device)).backward()
            optimizer.step()

Quiet: a new model for each fold, and a stage with its own learning rate

    import torch

    def main(data, base):
        for fold in range(5):
            model = torch.nn.Linear(4, 1)
            optimizer = torch.optim.Adam(model.parameters())
            for epoch in range(10):
                model(data[fold]).sum().backward()
                optimizer.step()
                optimizer.zero_grad()
        for rate in (1e-3, 1e-4):
            optimizer = torch.optim.SGD(base.parameters(), lr=rate)
            for epoch in range(10):
                base(data).sum().backward()
                optimizer.step()
                optimizer.zero_grad()
"""

import ast
import re

from gpuproof.findings import Severity
from gpuproof.linter.analysis.blocks import always_runs_in
from gpuproof.linter.analysis.call import Call, all_calls, calls_named, calls_within, local_function
from gpuproof.linter.analysis.flow.call_sites import known_call_sites
from gpuproof.linter.analysis.flow.model import CallSite
from gpuproof.linter.analysis.module import Module
from gpuproof.linter.analysis.syntax_index import FunctionNode, LoopNode
from gpuproof.linter.knowledge.frameworks.torch import is_test
from gpuproof.linter.knowledge.training.training_steps import is_batch_loop
from gpuproof.linter.project import Project
from gpuproof.linter.rule import Hits, Rule

rule = Rule("PF134", "optimizer-created-in-loop", Severity.WARNING, needs=("optim",))

_OPTIMIZER = re.compile(r"^torch\.optim\.(\w+\.)?[A-Z]\w+$")
_EPOCH = re.compile(r"^(_?epoch\w*|ep)$", re.IGNORECASE)


@rule.module
def check(module: Module, _: Project) -> Hits:
    if not module.imports("torch") or is_test(module):
        return
    for call in all_calls(module):
        if (
            not call.method[:1].isupper()
            or call.name is None
            or not _OPTIMIZER.match(call.name)
            or "lr_scheduler" in call.name
        ):
            continue
        model = _model(call)
        if model is None:
            continue
        loop = _loop_of(module, call, model)
        if loop is None:
            continue
        yield rule.hit(
            call.span,
            f"`{call.method}` is created anew {loop}: its state, such as momentum, is lost each time.",
            remedy="Create the optimizer once, before the loop.",
        )


def _model(call: Call) -> ast.Name | ast.Attribute | None:
    """The model of `Adam(model.parameters(), ...)`."""
    match call.expression("params", 0):
        case ast.Call(func=ast.Attribute(value=ast.Name() as model, attr="parameters")):
            return model
        case ast.Call(
            func=ast.Attribute(value=ast.Attribute(value=ast.Name(id="self")) as model, attr="parameters")
        ):
            return model
        case _:
            return None


def _loop_of(module: Module, call: Call, model: ast.Name | ast.Attribute) -> str | None:
    """In which loop an optimizer is created for a model that exists before, as a phrase; None if it is in none."""
    loops = module.loops_around(call.node)
    if loops:
        loop = loops[0]
        if not _trains(module, loop) or not _is_epoch_or_batch(module, loop):
            return None
        if _depends_on(module, call.node, loop) or (
            isinstance(model, ast.Name) and _is_bound_in(module, model, loop)
        ):
            return None
        if not always_runs_in(module, call.node, loop.body):
            return None
        return "for each batch" if is_batch_loop(module, loop) else "in each epoch"
    function = module.function_of(call.node)
    if function is None or not calls_within(calls_named(module, "backward"), function):
        return None
    if any(
        _is_epoch_loop(inner) for inner in module.nodes(ast.For) if module.tree.is_within(inner, function)
    ):
        return None
    if not always_runs_in(module, call.node, function.body):
        return None
    for site in known_call_sites(module, function):
        around = site.module.loops_around(site.call)
        if not around or not _is_epoch_or_batch(site.module, around[0]):
            continue
        if not _is_replaced(module, model, function, site, around[0]):
            return "for each batch" if is_batch_loop(site.module, around[0]) else "in each epoch"
    return None


def _is_replaced(
    module: Module, model: ast.expr, function: FunctionNode, site: CallSite, loop: LoopNode
) -> bool:
    """Whether the model may be another one in each round of a loop that calls a function."""
    if isinstance(model, ast.Attribute):
        owner = module.enclosing(function, ast.ClassDef)
        stores = [
            node
            for node in module.nodes(ast.Attribute)
            if isinstance(node.ctx, ast.Store) and module.text(node) == module.text(model)
        ]
        return owner is None or any(
            getattr(module.function_of(store), "name", "") != "__init__" for store in stores
        )
    if not isinstance(model, ast.Name):
        return True
    bindings = module.reaching(model)
    if all(binding.kind == "assign" and isinstance(binding.scope, ast.Module) for binding in bindings):
        return site.module is not module or _is_bound_in(module, model, loop)
    if not _is_parameter(module, model, function):
        return True
    given = [
        node
        for node in (*site.call.args, *(each.value for each in site.call.keywords))
        if isinstance(node, ast.Name)
    ]
    return (
        not given
        or any(_is_bound_in(site.module, node, loop) for node in given if node.id == model.id)
        or (all(node.id != model.id for node in given))
    )


def _is_parameter(module: Module, model: ast.Name, function: ast.AST) -> bool:
    return all(
        binding.kind == "parameter" and binding.scope is function for binding in module.reaching(model)
    )


def _is_epoch_loop(loop: ast.AST) -> bool:
    target = getattr(loop, "target", None)
    return isinstance(target, ast.Name) and _EPOCH.match(target.id) is not None


def _is_epoch_or_batch(module: Module, loop: LoopNode) -> bool:
    return _is_epoch_loop(loop) or is_batch_loop(module, loop)


def _trains(module: Module, around: ast.AST) -> bool:
    """Whether code computes gradients, itself or in a function of the file that it calls."""
    if calls_within(calls_named(module, "backward"), around):
        return True
    called = [local_function(call) for call in calls_within(all_calls(module), around)]
    return any(
        function is not None and calls_within(calls_named(module, "backward"), function)
        for function in called
    )


def _depends_on(module: Module, node: ast.Call, loop: LoopNode) -> bool:
    """Whether the arguments of a call use a value that the loop sets."""
    return any(
        isinstance(name, ast.Name) and isinstance(name.ctx, ast.Load) and _is_bound_in(module, name, loop)
        for name in ast.walk(node)
    )


def _is_bound_in(module: Module, name: ast.Name, loop: LoopNode) -> bool:
    return any(module.tree.is_within(binding.node, loop) for binding in module.reaching(name)) or any(
        isinstance(node.ctx, ast.Store) and node.id == name.id and module.tree.is_within(node, loop)
        for node in module.nodes(ast.Name)
    )
