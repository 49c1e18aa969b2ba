"""`torch.set_grad_enabled(False)` as a statement stays in force: the training after it fails, or learns nothing.

Unlike `with torch.no_grad():`, the call has no end. A validation that switches gradients off leaves them off: `backward()` in the next epoch
raises "element 0 of tensors does not require grad".

Bad:

    import torch

    def validate(model, loader):
        model.eval()
        torch.set_grad_enabled(False)  # <-
        return [model(x) for x in loader]

    def main(model, optimizer, loader, device):
        for epoch in range(10):
            model.train()
            for x, y in loader:
                optimizer.zero_grad()
                torch.nn.functional.mse_loss(model(x.to(device)), y.to(device)).backward()
                optimizer.step()
            validate(model, loader)

Good:

    import torch

    def validate(model, loader):
        model.eval()
        with torch.no_grad():
            return [model(x) for x in loader]

    def main(model, optimizer, loader, device):
        for epoch in range(10):
            model.train()
            for x, y in loader:
                optimizer.zero_grad()
                torch.nn.functional.mse_loss(model(x.to(device)), y.to(device)).backward()
                optimizer.step()
            validate(model, loader)

Quiet: switched on again, a context, or no training

    import torch

    def validate(model, loader):
        torch.set_grad_enabled(False)
        result = [model(x) for x in loader]
        torch.set_grad_enabled(True)
        with torch.set_grad_enabled(False):
            return result + [model(x) for x in loader]

    def main(model, loader):
        for epoch in range(10):
            model(loader).backward()
            validate(model, loader)
"""

import ast

from gpuproof.findings import Severity
from gpuproof.linter.analysis.call import calls_to
from gpuproof.linter.analysis.flow.repeats import in_training_loop
from gpuproof.linter.analysis.local_imports import program_modules
from gpuproof.linter.analysis.module import Module
from gpuproof.linter.knowledge.frameworks.torch import is_test
from gpuproof.linter.project import Project
from gpuproof.linter.rule import Hits, Rule

rule = Rule("PF144", "gradients-left-off", Severity.ERROR, needs=("set_grad_enabled",))

_SWITCHES = (
    "torch.set_grad_enabled",
    "torch.autograd.set_grad_enabled",
    "torch.autograd.grad_mode.set_grad_enabled",
)


@rule.module
def check(module: Module, _: Project) -> Hits:
    if is_test(module):
        return
    for call in calls_to(module, *_SWITCHES):
        value = call.argument("mode", 0)
        if not isinstance(module.parent(call.node), ast.Expr) or not (value.is_known and value.flag is False):
            continue
        others = [
            other
            for each in program_modules(module, "set_grad_enabled")
            for other in calls_to(each, *_SWITCHES)
            if other.argument("mode", 0).flag is not False
        ]
        if others or not in_training_loop(module, call.node):
            continue
        yield rule.hit(
            call.span,
            "Gradients stay switched off after this call: the next `backward()` fails.",
            remedy="Use `with torch.no_grad():` around the evaluation.",
        )
