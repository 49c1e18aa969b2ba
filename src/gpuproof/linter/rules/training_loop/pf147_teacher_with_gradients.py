"""The teacher or the target network runs with autograd on: its activations are kept for gradients that are never used.

Only the student is trained. Without `no_grad`, the forward pass of the usually larger teacher stores all activations, and `backward()` computes
the gradients of its weights as well: about twice the memory and time.

Bad:

    import torch
    import torchvision

    def distill(student, loader, device):
        optimizer = torch.optim.SGD(student.parameters(), lr=0.1)
        teacher = torchvision.models.resnet101(weights="DEFAULT").to(device).eval()
        for x, y in loader:
            x = x.to(device)
            target = teacher(x)  # <-
            optimizer.zero_grad()
            torch.nn.functional.mse_loss(student(x), target).backward()
            optimizer.step()

Bad: the target network of Q-learning

    import copy
    import torch

    class Agent:
        def __init__(self, policy):
            self.policy, self.target = policy, copy.deepcopy(policy)
            self.optimizer = torch.optim.Adam(self.policy.parameters(), lr=1e-3)

        def learn(self, state, reward, following):
            goal = reward + 0.99 * self.target(following).max(1).values  # <-
            loss = torch.nn.functional.mse_loss(self.policy(state).max(1).values, goal)
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()

Good:

    import torch
    import torchvision

    def distill(student, loader, device):
        optimizer = torch.optim.SGD(student.parameters(), lr=0.1)
        teacher = torchvision.models.resnet101(weights="DEFAULT").to(device).eval()
        for x, y in loader:
            x = x.to(device)
            with torch.no_grad():
                target = teacher(x)
            optimizer.zero_grad()
            torch.nn.functional.mse_loss(student(x), target).backward()
            optimizer.step()

Quiet: frozen

    import torch

    def distill(student, teacher, loader):
        optimizer = torch.optim.SGD(student.parameters(), lr=0.1)
        teacher.requires_grad_(False).eval()
        for x in loader:
            (student(x) - teacher(x)).mean().backward()
            optimizer.step()
            optimizer.zero_grad()

Quiet: trained as well

    import torch

    def distill(student, teacher, loader):
        optimizer = torch.optim.SGD([*student.parameters(), *teacher.parameters()], lr=0.1)
        for x in loader:
            (student(x) - teacher(x)).mean().backward()
            optimizer.step()
            optimizer.zero_grad()
"""

import ast
import re

from gpuproof.findings import Severity
from gpuproof.linter.analysis.call import Call, all_calls, calls_named, calls_within
from gpuproof.linter.analysis.flow.repeats import in_training_loop
from gpuproof.linter.analysis.local_imports import program_modules
from gpuproof.linter.analysis.module import Module
from gpuproof.linter.analysis.usage import uses
from gpuproof.linter.knowledge.frameworks.torch import imports_device_manager, is_inside_with, is_test
from gpuproof.linter.knowledge.training.distillation import is_applied_to_teacher, teacher_of
from gpuproof.linter.project import Project
from gpuproof.linter.rule import Hits, Rule

rule = Rule("PF147", "teacher-with-gradients", Severity.WARNING, needs=("teacher", "target"))

_TARGET = re.compile(r"^(target|\w*_target|target_(net|network|model|q|policy|critic)\w*)$")


@rule.module
def check(module: Module, _: Project) -> Hits:
    if not module.imports("torch") or is_test(module) or imports_device_manager(module):
        return
    for call in all_calls(module):
        name = teacher_of(module, call)
        is_target = name is None and _is_target_network(module, call)
        if name is None and not is_target:
            continue
        if is_inside_with(module, call.node, ("no_grad", "inference_mode", "set_grad_enabled")):
            continue
        if name is not None and (not in_training_loop(module, call.node) or _may_be_frozen(module)):
            continue
        yield rule.hit(
            call.span,
            f"`{module.text(call.node.func)}` runs with autograd on: its activations are kept for gradients that are not used.",
            remedy="Call it inside `with torch.no_grad():`.",
        )
        return


def _is_target_network(module: Module, call: Call) -> bool:
    """Whether a call runs a copy of a network, whose result is the goal of a loss and is not detached."""
    function, around = call.node.func, module.function_of(call.node)
    last = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
    if not _TARGET.match(last) or around is None or not call.node.args:
        return False
    copied = [
        other
        for other in (*calls_named(module, "deepcopy"), *calls_named(module, "load_state_dict"))
        if _keeps(module, other, module.text(function))
    ]
    if not copied or not calls_within(calls_named(module, "backward"), around):
        return False
    frozen = re.compile(r"(^|[._])(detach_?|requires_grad_?|no_grad|freeze\w*|stop_gradient)$")
    statement = module.tree.statement(call.node)
    return (
        statement is not None
        and not uses(module, frozen, "call", "attribute", within=around)
        and not _is_frozen(module, last)
    )


def _keeps(module: Module, made: Call, network: str) -> bool:
    """Whether a call copies the weights of another network into this one."""
    if made.method == "load_state_dict":
        return made.receiver is not None and module.text(made.receiver) == network
    return any(
        module.text(target) == network
        for statement in module.nodes(ast.Assign)
        if module.tree.is_within(made.node, statement)
        for group in statement.targets
        for target in (group.elts if isinstance(group, ast.Tuple) else [group])
    )


def _is_frozen(module: Module, name: str) -> bool:
    """Whether code freezes the network: `target.requires_grad_(False)`, `for p in target.parameters(): p.requires_grad = False`."""
    if any(
        call.receiver is not None and module.text(call.receiver).rpartition(".")[2].partition("(")[0] == name
        for call in calls_named(module, "requires_grad_")
    ):
        return True
    return any(
        isinstance(node.ctx, ast.Store)
        and any(
            name in module.text(loop.iter) for loop in module.loops_around(node) if isinstance(loop, ast.For)
        )
        for node in module.nodes(ast.Attribute)
        if node.attr == "requires_grad"
    ) or any(name in module.text(call.node) for call in calls_named(module, "requires_grad_"))


def _may_be_frozen(module: Module) -> bool:
    """Whether the program freezes a teacher, or trains or updates it."""
    for other in program_modules(module):
        calls = calls_named(other, "requires_grad_", "parameters", "named_parameters", "freeze")
        if any(call.receiver is not None and is_applied_to_teacher(other, call.receiver) for call in calls):
            return True
        for call in all_calls(other):
            if "freeze" in call.method and any("teacher" in other.text(node) for node in call.node.args):
                return True
    return False
