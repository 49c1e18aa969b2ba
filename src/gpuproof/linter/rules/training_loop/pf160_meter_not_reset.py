"""A meter of the project, such as `AverageMeter`, is created once, updated in every evaluation and never reset: each result covers all epochs so far.

The mean then lags behind: an early, bad epoch stays in it, the best checkpoint is chosen by the wrong number, and early stopping
comes too late.

Bad:

    import torch

    class Meter:
        def __init__(self):
            self.reset()

        def reset(self):
            self.total, self.count = 0.0, 0

        def update(self, value, count):
            self.total += value * count
            self.count += count

        def mean(self):
            return self.total / self.count

    class Evaluator:
        def __init__(self, loader):
            self.loader = loader
            self.meter = Meter()

        @torch.no_grad()
        def run(self, model):
            model.eval()
            for x, y in self.loader:
                self.meter.update((model(x.cuda()) == y.cuda()).float().mean().item(), len(x))
            return self.meter.mean()  # <-

    def fit(model, loader):
        evaluator = Evaluator(loader)
        for epoch in range(3):
            print(evaluator.run(model))

Good:

    import torch

    class Meter:
        def __init__(self):
            self.reset()

        def reset(self):
            self.total, self.count = 0.0, 0

        def update(self, value, count):
            self.total += value * count
            self.count += count

        def mean(self):
            return self.total / self.count

    class Evaluator:
        def __init__(self, loader):
            self.loader = loader
            self.meter = Meter()

        @torch.no_grad()
        def run(self, model):
            model.eval()
            self.meter.reset()
            for x, y in self.loader:
                self.meter.update((model(x.cuda()) == y.cuda()).float().mean().item(), len(x))
            return self.meter.mean()

    def fit(model, loader):
        evaluator = Evaluator(loader)
        for epoch in range(3):
            print(evaluator.run(model))

Quiet: it runs once

    import torch

    class Meter:
        def __init__(self):
            self.reset()

        def reset(self):
            self.total = 0.0

        def update(self, value):
            self.total += value

    class Evaluator:
        def __init__(self, loader):
            self.loader = loader
            self.meter = Meter()

        def run(self, model):
            for x, y in self.loader:
                self.meter.update(float(y.sum()))
            return self.meter.total

    print(Evaluator([]).run(None))
"""

import ast

from gpuproof.findings import Severity
from gpuproof.linter.analysis.call import Call, calls_named
from gpuproof.linter.analysis.flow.call_targets import find_method
from gpuproof.linter.analysis.flow.repeats import is_repeated
from gpuproof.linter.analysis.flow.sources import class_of
from gpuproof.linter.analysis.local_imports import program_modules
from gpuproof.linter.analysis.module import Module
from gpuproof.linter.analysis.syntax_index import FunctionNode
from gpuproof.linter.knowledge.frameworks.torch import is_test
from gpuproof.linter.project import Project
from gpuproof.linter.rule import Hits, Rule

rule = Rule("PF160", "meter-not-reset", Severity.WARNING, needs=("update",))

_RESETS = ("reset", "clear", "zero", "reset_state")


@rule.module
def check(module: Module, _: Project) -> Hits:
    if is_test(module):
        return
    seen: set[tuple[ast.AST, str]] = set()
    for update in calls_named(module, "update"):
        function, owner = module.function_of(update.node), module.enclosing(update.node, ast.ClassDef)
        receiver = update.receiver
        if function is None or owner is None or not _is_own(receiver) or not module.loops_around(update.node):
            continue
        assert isinstance(receiver, ast.Attribute)
        if (function, receiver.attr) in seen or function.name == "__init__":
            continue
        seen.add((function, receiver.attr))
        meter = class_of(module, receiver)
        if (
            meter is None
            or find_method(meter, "reset") is None
            or not _is_created_once(module, owner, receiver.attr)
        ):
            continue
        result = _result(module, function, update, receiver.attr)
        if result is None or _is_reset(module) or not _runs_again(module, owner, function):
            continue
        yield rule.hit(
            module.span(result),
            f"`{module.text(receiver)}` is never reset: `{module.text(result)}` covers every earlier call of "
            f"`{function.name}`, too.",
            remedy=f"Call {module.text(receiver)}.reset() at the beginning of {function.name}.",
        )


def _is_own(node: ast.expr | None) -> bool:
    return isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "self"


def _is_created_once(module: Module, owner: ast.ClassDef, name: str) -> bool:
    """Whether only `__init__` assigns an attribute."""
    stores = [
        node
        for node in module.nodes(ast.Attribute)
        if node.attr == name and not isinstance(node.ctx, ast.Load) and module.tree.is_within(node, owner)
    ]
    functions = [module.function_of(node) for node in stores]
    return bool(stores) and all(item is not None and item.name == "__init__" for item in functions)


def _result(module: Module, function: FunctionNode, update: Call, name: str) -> ast.Attribute | None:
    """What the function reads of the meter after its loop."""
    loop = module.loops_around(update.node)[-1]
    for node in module.nodes(ast.Attribute):
        is_read = _is_own(node.value) and isinstance(node.value, ast.Attribute) and node.value.attr == name
        if is_read and module.function_of(node) is function and node.lineno > (loop.end_lineno or 0):
            return node if node.attr not in ("update", *_RESETS) else None
    return None


def _is_reset(module: Module) -> bool:
    """Whether code of the program resets some object other than itself."""
    return any(
        call.receiver is not None and not (isinstance(call.receiver, ast.Name) and call.receiver.id == "self")
        for other in program_modules(module)
        for call in calls_named(other, *_RESETS)
    )


def _runs_again(module: Module, owner: ast.ClassDef, function: FunctionNode) -> bool:
    """Whether a loop of the program runs the method on the same object."""
    if function.name != "__call__":
        return is_repeated(module, function.body[0])
    for other in program_modules(module):
        for call in other.nodes(ast.Call):
            if not isinstance(call.func, (ast.Name, ast.Attribute)) or not other.loops_around(call):
                continue
            found = class_of(other, call.func)
            if found is not None and found.node is owner:
                return True
    return False
