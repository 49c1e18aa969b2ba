"""A validation inside the epoch loop calls `model.eval()`, and nothing calls `model.train()` before the next epoch.

From the second epoch on, the model trains in evaluation mode: dropout is off, and batch normalization uses frozen
statistics. The model overfits or stops improving, and nothing says why. `model.train()` once before the loop does not
help: it has to be called at the beginning of each epoch. The rule reports models whose parameters an optimizer gets, and
that certainly or probably have layers that depend on the mode.

Bad:

    import torch

    model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Dropout(0.5))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    model.train()
    for epoch in range(10):
        for x, y in []:
            optimizer.zero_grad()
            (model(x) - y).sum().backward()
            optimizer.step()
        model.eval()  # <-
        with torch.no_grad():
            for x, y in []:
                model(x)

Bad: in a function

    import torch
    import torchvision

    def validate(net, loader):
        net.eval()  # <-
        with torch.no_grad():
            return [net(x) for x, y in loader]

    model = torchvision.models.resnet18()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for epoch in range(10):
        for x, y in []:
            optimizer.zero_grad()
            (model(x) - y).sum().backward()
            optimizer.step()
        validate(model, [])

Good:

    import torch

    model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Dropout(0.5))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for epoch in range(10):
        model.train()
        for x, y in []:
            optimizer.zero_grad()
            (model(x) - y).sum().backward()
            optimizer.step()
        model.eval()
        with torch.no_grad():
            for x, y in []:
                model(x)

Quiet: another model, which is never trained

    import torch

    teacher = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Dropout(0.5))
    model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Dropout(0.5))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for epoch in range(10):
        for x, y in []:
            optimizer.zero_grad()
            (model(x) - teacher(x)).sum().backward()
            optimizer.step()
        teacher.eval()

Quiet: no layer depends on the mode

    import torch

    model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for epoch in range(10):
        for x, y in []:
            optimizer.zero_grad()
            (model(x) - y).sum().backward()
            optimizer.step()
        model.eval()
"""

import ast
import re
from collections.abc import Iterator
from typing import NamedTuple

from gpuproof.findings import Severity
from gpuproof.linter.analysis.call import Call, all_calls, calls_named, calls_within
from gpuproof.linter.analysis.flow.call_targets import find_definition
from gpuproof.linter.analysis.flow.creations import creations
from gpuproof.linter.analysis.module import Module
from gpuproof.linter.analysis.syntax_index import FunctionNode, LoopNode
from gpuproof.linter.analysis.usage import uses
from gpuproof.linter.knowledge.frameworks.torch import imports_device_manager, is_test
from gpuproof.linter.project import Project
from gpuproof.linter.rule import Hits, Rule

rule = Rule("PF121", "eval-never-undone", Severity.ERROR, needs=("backward",))

_BEHAVES = re.compile(
    r"(^|\.)(\w*Dropout|\w*BatchNorm|InstanceNorm|SyncBatchNorm|Transformer|MultiheadAttention)\w*$"
)
_HARMLESS = re.compile(
    r"^torch\.|(^|\.)(print|len|isinstance|id|type|hasattr|getattr|deepcopy|info|debug|summary|watch)$"
)
"""Functions that do not change the mode of a model that they get."""
_MADE_OF_LAYERS = re.compile(r"^torch\.nn\.")
_MAX_DEPTH = 4


class _Reached(NamedTuple):
    """Code that runs in a loop: the loop itself, or a function that it calls, with the arguments of that call.

    Attributes:
        names: for each parameter, the expression that the loop passes for it, as text.
        called: the call in the loop itself through which the function runs; None for the loop.
    """

    module: Module
    node: ast.AST
    names: dict[str, str]
    called: ast.AST | None


@rule.module
def check(module: Module, _: Project) -> Hits:
    if not module.imports("torch") or is_test(module) or imports_device_manager(module):
        return
    for loop in module.nodes(ast.For, ast.While):
        evaluation = _undone(module, loop)
        if evaluation is not None:
            name, call = evaluation
            yield rule.hit(
                call.span,
                f"`{name}` is in evaluation mode from here on: nothing in the loop of line "
                f"{module.unit.file_position(loop.lineno, 1)[1]} calls {name}.train(), so all epochs but the first train "
                "without dropout and with frozen batch statistics.",
                remedy=f"Call {name}.train() at the beginning of each epoch.",
            )


def _undone(module: Module, loop: LoopNode) -> tuple[str, Call] | None:
    """A trained model that a loop puts into evaluation mode after training it, and never back; None if there is none."""
    reached = list(_code_of(module, loop))
    trained = {name for code in reached for name in _trained(code)} | set(_optimized(module, loop))
    starts = [
        code.called or call.node
        for code in reached
        for call in _calls(code, "backward")
        if call.receiver is not None
    ]
    if not starts or any(_calls(code, "train", "fit") for code in reached):
        return None
    for code in reached:
        for call in _calls(code, "eval"):
            name = _name_of(code, call.receiver)
            here = code.called or call.node
            if name is None or name not in trained or call.node.args:
                continue
            if not any(_is_repeated(module, loop, start, here) for start in starts):
                continue
            if _is_replaced(module, loop, name) or any(_is_passed_on(each, name) for each in reached):
                continue
            if _may_depend_on_mode(code.module, call.receiver):
                return name, call
    return None


def _is_repeated(module: Module, loop: LoopNode, start: ast.AST, evaluation: ast.AST) -> bool:
    """Whether a loop is the innermost around training and a later evaluation, so that training follows the evaluation again."""
    if getattr(evaluation, "lineno", 0) <= getattr(start, "lineno", 0):
        return False
    around = module.loops_around(start)
    return next((each for each in module.loops_around(evaluation) if each in around), None) is loop


def _is_replaced(module: Module, loop: LoopNode, name: str) -> bool:
    """Whether the loop creates a new model, as for each fold of a cross-validation."""
    base = name.partition(".")[0]
    return any(
        module.text(node) in (base, name)
        for node in module.nodes(ast.Name, ast.Attribute)
        if isinstance(node.ctx, ast.Store) and module.tree.is_within(node, loop)
    )


def _is_passed_on(code: _Reached, name: str) -> bool:
    """Whether code passes the model to a function that is not seen, which may put it back into training mode."""
    for call in calls_within(all_calls(code.module), code.node):
        given = [*call.node.args, *call.keywords.values()]
        if not any(_name_of(code, node) == name for node in given) or find_definition(
            code.module, call.node.func
        ):
            continue
        if not _HARMLESS.search(call.name or call.method):
            return True
    return False


def _code_of(module: Module, loop: LoopNode) -> Iterator[_Reached]:
    """The loop, and the project's functions that it calls, directly or not."""
    pending = [_Reached(module, loop, {}, None)]
    seen: set[ast.AST] = set()
    for depth in range(_MAX_DEPTH):
        following: list[_Reached] = []
        for code in pending:
            if code.node in seen:
                continue
            seen.add(code.node)
            yield code
            for call in calls_within(all_calls(code.module), code.node):
                found = find_definition(code.module, call.node.func)
                if found is None or isinstance(found.node, ast.ClassDef):
                    continue
                names = _arguments(code, call, found.node)
                following.append(
                    _Reached(
                        found.module, found.node, names, code.called or (call.node if depth == 0 else None)
                    )
                )
        pending = following


def _arguments(code: _Reached, call: Call, function: FunctionNode) -> dict[str, str]:
    parameters = [item.arg for item in (*function.args.posonlyargs, *function.args.args)]
    if parameters[:1] in (["self"], ["cls"]):
        del parameters[0]
    given = {name: call.expression(name, index) for index, name in enumerate(parameters)}
    return {name: text for name, node in given.items() if (text := _name_of(code, node)) is not None}


def _name_of(code: _Reached, node: ast.expr | None) -> str | None:
    """The name of a variable as the loop knows it: through the parameters of functions."""
    if not isinstance(node, (ast.Name, ast.Attribute)):
        return None
    text = code.module.text(node)
    base, _, rest = text.partition(".")
    return f"{code.names[base]}{'.' if rest else ''}{rest}" if base in code.names else text


def _calls(code: _Reached, *names: str) -> list[Call]:
    return [
        call
        for call in calls_within(calls_named(code.module, *names), code.node)
        if not (call.method == "train" and call.argument("mode", 0).flag is False)
        and call.receiver is not None
    ]


def _trained(code: _Reached) -> Iterator[str]:
    """The variables whose parameters an optimizer gets in this code."""
    for call in _calls(code, "parameters"):
        around = code.module.enclosing(call.node, ast.Call)
        if around is not None and (code.module.qualified(around.func) or "").startswith("torch.optim."):
            name = _name_of(code, call.receiver)
            if name is not None:
                yield name


def _optimized(module: Module, loop: LoopNode) -> Iterator[str]:
    """The variables whose parameters an optimizer gets, in the function of the loop or at the top level."""
    function, owner = module.function_of(loop), module.enclosing(loop, ast.ClassDef)
    for call in calls_named(module, "parameters", "named_parameters"):
        if call.receiver is None:
            continue
        of_class = owner is not None and module.enclosing(call.node, ast.ClassDef) is owner
        is_own = of_class and module.text(call.receiver).startswith("self.")
        if not is_own and module.function_of(call.node) not in (function, None):
            continue
        around = call.node
        while (around := module.enclosing(around, ast.Call)) is not None:
            if (module.qualified(around.func) or "").startswith("torch.optim."):
                yield module.text(call.receiver)


def _may_depend_on_mode(module: Module, node: ast.expr | None) -> bool:
    """Whether a model may have dropout or batch normalization: not if all its layers are seen, and none has."""
    made = creations(module, node)
    return not made or any(_has_such_layers(call) for call in made)


def _has_such_layers(call: Call) -> bool:
    module = call.module
    found = find_definition(module, call.node.func)
    layers: ast.AST = call.node
    if found is not None and isinstance(found.node, ast.ClassDef):
        module, layers = found.module, found.node
        if any(not base.endswith("nn.Module") for base in module.bases(found.node)):
            return True
    elif not _MADE_OF_LAYERS.match(call.name or ""):
        return True
    if uses(module, _BEHAVES, "call", "name", within=layers):
        return True
    # Layers that come from somewhere else: other classes of the project, or libraries.
    return any(
        inner.method[:1].isupper() and _MADE_OF_LAYERS.match(inner.name or "") is None
        for inner in calls_within(all_calls(module), layers)
    )
