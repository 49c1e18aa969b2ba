"""`backward()` adds to the existing gradients: without `zero_grad()`, each step uses the sum of all previous steps.

Training then diverges or converges to something worse, without a warning. The rule checks training loops that are
completely visible and in which neither the optimizer's nor the model's gradients are cleared.

Bad:

    import torch
    from torch.utils.data import DataLoader

    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for x, y in DataLoader([]):
        loss = torch.nn.functional.mse_loss(model(x), y)
        loss.backward()
        optimizer.step()  # <-

Bad: mixed precision

    import torch

    def train(model, optimizer, scaler):
        for x in range(3):
            with torch.autocast("cuda"):
                loss = model(torch.ones(4).cuda()).sum()
            scaler.scale(loss).backward()
            scaler.step(optimizer)  # <-
            scaler.update()

    model = torch.nn.Linear(4, 1).cuda()
    train(model, torch.optim.SGD(model.parameters(), lr=0.1), torch.amp.GradScaler("cuda"))

Bad: only the other optimizer's gradients are cleared

    import torch

    critic, actor = torch.nn.Linear(4, 1), torch.nn.Linear(4, 1)
    critic_optimizer = torch.optim.Adam(critic.parameters())
    actor_optimizer = torch.optim.Adam(actor.parameters())
    for x in torch.utils.data.DataLoader([]):
        critic_optimizer.zero_grad()
        critic(x).mean().backward()
        critic_optimizer.step()
        actor(x).mean().backward()
        actor_optimizer.step()  # <-

Bad: the optimizer of a trainer

    import torch

    class Trainer:
        def __init__(self, model):
            self.model = model
            self.optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)

        def fit(self, loader):
            for x, y in loader:
                loss = torch.nn.functional.mse_loss(self.model(x), y)
                loss.backward()
                self.optimizer.step()  # <-

Good:

    import torch
    from torch.utils.data import DataLoader

    device = torch.device("cuda")
    model = torch.nn.Linear(4, 1).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for x, y in DataLoader([]):
        optimizer.zero_grad(set_to_none=True)
        loss = torch.nn.functional.mse_loss(model(x.to(device)), y.to(device))
        loss.backward()
        optimizer.step()

Quiet: a scaler of another kind may clear them

    import torch
    from helpers import make_scaler

    scaler = make_scaler()
    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for x in range(3):
        scaler.scale(model(torch.ones(4)).sum()).backward()
        scaler.step(optimizer)

Quiet: the model's gradients are cleared

    import torch
    from torch.utils.data import DataLoader

    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for x, y in DataLoader([]):
        model.zero_grad()
        torch.nn.functional.mse_loss(model(x), y).backward()
        optimizer.step()

Quiet: a helper may do it

    import torch
    from helpers import reset

    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for x in range(3):
        reset(optimizer)
        model(torch.ones(4)).sum().backward()
        optimizer.step()
"""

import ast
import re

from gpuproof.findings import Severity
from gpuproof.linter.analysis.call import (
    Call,
    all_calls,
    calls_named,
    calls_within,
    local_function,
)
from gpuproof.linter.analysis.flow.creations import creations
from gpuproof.linter.analysis.flow.repeats import in_training_loop
from gpuproof.linter.analysis.local_imports import local_modules, program_modules, unseen_imports
from gpuproof.linter.analysis.module import Module
from gpuproof.linter.analysis.types import TypeKind, type_of
from gpuproof.linter.analysis.usage import code_around, find_uses, moves_name, uses
from gpuproof.linter.knowledge.frameworks.torch import changes_gradients, imports_device_manager, is_test
from gpuproof.linter.knowledge.unused_functions import used_calls, used_code
from gpuproof.linter.project import Project
from gpuproof.linter.rule import Hit, Hits, Rule

rule = Rule("PF106", "zero-grad-missing", Severity.ERROR, needs=(".step(",))

_CLEARS = re.compile(r"(^|\.)zero_grad$|^(horovod|apex|megatron)\.|(^|\.)clear_grad\w*$")


@rule.module
def check(module: Module, _: Project) -> Hits:
    if not module.imports("torch") or is_test(module) or imports_device_manager(module):
        return
    for call in calls_named(module, "step"):
        receiver, loops = _stepped(module, call), module.loops_around(call.node)
        if isinstance(receiver, ast.Attribute) or (isinstance(receiver, ast.Name) and not loops):
            if _is_never_cleared(module, call, receiver):
                yield _hit(module, call, module.text(receiver))
            continue
        if not isinstance(receiver, ast.Name) or not loops:
            continue
        if type_of(module, receiver).kind is not TypeKind.OPTIMIZER or not calls_within(
            calls_named(module, "backward"), loops[0]
        ):
            continue
        if _is_cleared(module, receiver, loops[-1]) or _is_passed_on(module, receiver):
            continue
        yield _hit(module, call, receiver.id)


def _hit(module: Module, call: Call, optimizer: str) -> Hit:
    return rule.hit(
        call.span,
        f"The gradients are never cleared before `{module.text(call.node)}`: they add up over all steps.",
        remedy=f"Call {optimizer}.zero_grad(set_to_none=True) before backward().",
    )


def _is_never_cleared(module: Module, call: Call, optimizer: ast.expr) -> bool:
    """Whether an optimizer of an object or of a caller trains, and nothing in the whole program clears gradients."""
    if type_of(module, optimizer).kind is not TypeKind.OPTIMIZER or not in_training_loop(module, call.node):
        return False
    modules = program_modules(module)
    if any(map(imports_device_manager, modules)) or any(set(unseen_imports(other)) for other in modules):
        return False
    return not any(
        used_calls(other, calls_named(other, "zero_grad", "clear_gradients"))
        or changes_gradients(other, used_code(other))
        or uses(other, _CLEARS, "call", "name", within=used_code(other))
        for other in modules
    )


def _stepped(module: Module, call: Call) -> ast.expr | None:
    """The optimizer of `optimizer.step()`, or of `scaler.step(optimizer)`."""
    if not call.node.args and not call.keywords:
        return call.receiver
    scalers = creations(module, call.receiver)
    is_scaler = bool(scalers) and all(made.method == "GradScaler" for made in scalers)
    return call.node.args[0] if is_scaler and len(call.node.args) == 1 else None


def _is_cleared(module: Module, optimizer: ast.Name, loop: ast.AST) -> bool:
    """Whether code that runs with the training loop clears or assigns gradients, or any code those of the optimizer."""
    around = code_around(module, loop)
    return (
        moves_name(module, optimizer, calls_named(module, "zero_grad"))
        or any(
            _CLEARS.search(use.text) and not _is_of_another(module, use.node, optimizer)
            for use in find_uses(module, "call", "name", within=around)
        )
        or changes_gradients(module, around)
        or any(
            call.receiver is not None and _clears_elsewhere(call)
            for call in calls_within(all_calls(module), loop)
        )
    )


def _is_of_another(module: Module, node: ast.AST, optimizer: ast.Name) -> bool:
    """Whether a call certainly clears the gradients of another optimizer, which has other parameters."""
    match node:
        case ast.Call(func=ast.Attribute(value=ast.Name() as receiver, attr="zero_grad")):
            pass
        case ast.Name() as receiver:
            pass
        case _:
            return False
    others, own = creations(module, receiver), creations(module, optimizer)
    if not others or not own:
        return False
    return all((call.name or "").startswith("torch.optim.") for call in (*others, *own)) and not (
        {_parameters(call) for call in others} & {_parameters(call) for call in own}
    )


def _parameters(optimizer: Call) -> str:
    given = optimizer.expression("params", 0)
    return optimizer.module.text(given) if given is not None else ""


def _clears_elsewhere(call: Call) -> bool:
    """Whether a method of the project's own class, which may be in another file, clears gradients."""
    return any(
        function.name == call.method and uses(module, _CLEARS, "call", within=function)
        for module in local_modules(call.module)
        for function in module.nodes(ast.FunctionDef)
    )


def _keeps_gradients(module: Module, call: Call) -> bool:
    """Whether a call that gets the optimizer certainly clears no gradients, or is looked into itself."""
    if local_function(call) is not None or "lr_scheduler" in (call.name or ""):
        return True
    return call.method in ("step", "unscale_") and any(
        made.method == "GradScaler" for made in creations(module, call.receiver)
    )


def _is_passed_on(module: Module, optimizer: ast.Name) -> bool:
    """Whether the optimizer is passed to an unknown function, which may clear its gradients."""
    bindings = module.reaching(optimizer)
    for call in all_calls(module):
        given = [*call.node.args, *call.keywords.values()]
        passed = any(
            isinstance(argument, ast.Name) and any(each in bindings for each in module.reaching(argument))
            for argument in given
        )
        if passed and not _keeps_gradients(module, call):
            return True
    return False
