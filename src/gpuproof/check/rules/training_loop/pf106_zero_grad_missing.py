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

Good:

    import torch
    from torch.utils.data import DataLoader

    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for x, y in DataLoader([]):
        optimizer.zero_grad(set_to_none=True)
        loss = torch.nn.functional.mse_loss(model(x), y)
        loss.backward()
        optimizer.step()

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

from gpuproof.check.analysis.call import all_calls, calls_named, calls_within, local_function
from gpuproof.check.analysis.module import Module
from gpuproof.check.analysis.types import TypeKind, type_of
from gpuproof.check.knowledge.torch import imports_device_manager, is_test
from gpuproof.check.project import Project
from gpuproof.check.rule import Hits, Rule
from gpuproof.findings import Severity

rule = Rule("PF106", "zero-grad-missing", Severity.ERROR, needs=("backward",))

_CLEARS = ("zero_grad", ".grad", "closure", "accum", "horovod", "apex", "parallel_state")


@rule.module
def check(module: Module, _: Project) -> Hits:
    if (
        not module.imports("torch")
        or module.mentions(*_CLEARS)
        or is_test(module)
        or imports_device_manager(module)
    ):
        return
    for call in calls_named(module, "step"):
        receiver, loops = call.receiver, module.loops_around(call.node)
        if not isinstance(receiver, ast.Name) or not loops or call.node.args or call.keywords:
            continue
        if type_of(module, receiver).kind is not TypeKind.OPTIMIZER or not calls_within(
            calls_named(module, "backward"), loops[0]
        ):
            continue
        if _is_passed_on(module, receiver.id):
            continue
        yield rule.hit(
            call.span,
            f"The gradients are never cleared before `{module.text(call.node)}`: they add up over all steps.",
            remedy=f"Call {receiver.id}.zero_grad(set_to_none=True) before backward().",
        )


def _is_passed_on(module: Module, name: str) -> bool:
    """Whether the optimizer is passed to an unknown function, which may clear its gradients."""
    for call in all_calls(module):
        given = [*call.node.args, *call.keywords.values()]
        passed = any(isinstance(one, ast.Name) and one.id == name for one in given)
        if passed and local_function(call) is None and "lr_scheduler" not in (call.name or ""):
            return True
    return False
