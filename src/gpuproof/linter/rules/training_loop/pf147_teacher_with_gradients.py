"""The teacher runs with autograd on: its activations are kept for gradients that are never used.

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

import re

from gpuproof.findings import Severity
from gpuproof.linter.analysis.call import all_calls, calls_named
from gpuproof.linter.analysis.flow.repeats import in_training_loop
from gpuproof.linter.analysis.local_imports import program_modules
from gpuproof.linter.analysis.module import Module
from gpuproof.linter.analysis.usage import uses
from gpuproof.linter.knowledge.distillation import TEACHER, teacher_of
from gpuproof.linter.knowledge.torch import imports_device_manager, is_inside_with, is_test
from gpuproof.linter.project import Project
from gpuproof.linter.rule import Hits, Rule

rule = Rule("PF147", "teacher-with-gradients", Severity.WARNING, needs=("teacher",))

_FREEZES = re.compile(r"(^|[._])(requires_grad_?|freeze\w*)$")


@rule.module
def check(module: Module, _: Project) -> Hits:
    if not module.imports("torch") or is_test(module) or imports_device_manager(module):
        return
    for call in all_calls(module):
        name = teacher_of(module, call)
        if name is None or is_inside_with(
            module, call.node, ("no_grad", "inference_mode", "set_grad_enabled")
        ):
            continue
        if not in_training_loop(module, call.node) or _may_be_frozen(module):
            continue
        yield rule.hit(
            call.span,
            f"`{name}` runs with autograd on: its activations are kept for gradients that only the student needs.",
            remedy="Call it inside `with torch.no_grad():`.",
        )
        return


def _may_be_frozen(module: Module) -> bool:
    """Whether the program freezes parameters, or trains or updates the teacher itself."""
    for other in program_modules(module):
        if uses(other, _FREEZES, "call", "attribute"):
            return True
        receivers = [call.receiver for call in calls_named(other, "parameters", "named_parameters")]
        if any(
            node is not None and TEACHER.search(other.text(node).rpartition(".")[2]) for node in receivers
        ):
            return True
    return False
