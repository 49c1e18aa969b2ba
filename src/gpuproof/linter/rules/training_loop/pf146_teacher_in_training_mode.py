"""The teacher of a distillation is never put into evaluation mode: its dropout is on, and the student's batches change its statistics.

The student then learns from a random teacher whose batch normalization drifts, and the distillation is worse than it could be. Models from
`from_pretrained` are already in evaluation mode. A mean teacher, which follows the student, is not reported.

Bad:

    import torch
    import torchvision

    def distill(student, loader, optimizer, device):
        teacher = torchvision.models.resnet101(weights="DEFAULT").to(device)
        for x, y in loader:
            x = x.to(device)
            with torch.no_grad():
                target = teacher(x)  # <-
            optimizer.zero_grad()
            torch.nn.functional.mse_loss(student(x), target).backward()
            optimizer.step()

Good:

    import torch
    import torchvision

    def distill(student, loader, optimizer, device):
        teacher = torchvision.models.resnet101(weights="DEFAULT").to(device).eval()
        for x, y in loader:
            x = x.to(device)
            with torch.no_grad():
                target = teacher(x)
            optimizer.zero_grad()
            torch.nn.functional.mse_loss(student(x), target).backward()
            optimizer.step()

Quiet: a function that sets the teacher up

    import torch
    from recipe import instantiate

    class Recipe:
        def __init__(self, config):
            self.teacher_model = self._setup_teacher(config)

        def _setup_teacher(self, config):
            model = instantiate(config)
            model.eval()
            return model

        def train(self, student, loader, optimizer):
            for x in loader:
                with torch.no_grad():
                    target = self.teacher_model(x)
                torch.nn.functional.mse_loss(student(x), target).backward()
                optimizer.step()
                optimizer.zero_grad()

Quiet: from the Hub, or a mean teacher

    import torch
    from transformers import AutoModel

    def distill(student, teacher, loader, optimizer, decay):
        big_teacher = AutoModel.from_pretrained("bert-large-uncased")
        for x in loader:
            loss = (student(x) - teacher(x).detach() - big_teacher(x).pooler_output.detach()).mean()
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            for ours, theirs in zip(teacher.parameters(), student.parameters()):
                ours.data.mul_(decay).add_(theirs.data, alpha=1 - decay)
"""

import ast
import re

from gpuproof.findings import Severity
from gpuproof.linter.analysis.call import Call, all_calls, calls_named
from gpuproof.linter.analysis.flow.creations import creations
from gpuproof.linter.analysis.flow.repeats import in_training_loop
from gpuproof.linter.analysis.local_imports import program_modules
from gpuproof.linter.analysis.module import Module
from gpuproof.linter.knowledge.frameworks.torch import imports_device_manager, is_test
from gpuproof.linter.knowledge.training.distillation import is_applied_to_teacher, teacher_of
from gpuproof.linter.project import Project
from gpuproof.linter.rule import Hits, Rule

rule = Rule("PF146", "teacher-in-training-mode", Severity.WARNING, needs=("teacher",))

_LOADED = re.compile(r"(from_pretrained|jit\.load|load_model|pipeline|AutoModel\w*|SentenceTransformer)$")


@rule.module
def check(module: Module, _: Project) -> Hits:
    if not module.imports("torch") or is_test(module) or imports_device_manager(module):
        return
    seen = set[str]()
    for call in all_calls(module):
        name = teacher_of(module, call)
        if name is None or name in seen or not in_training_loop(module, call.node):
            continue
        seen.add(name)
        made = creations(module, call.node.func)
        if any(_LOADED.search(each.name or each.method) for each in made) or _may_be_evaluated(module, made):
            continue
        yield rule.hit(
            call.span,
            f"`{name}` is never put into evaluation mode: its dropout is on, and its batch statistics follow the student's batches.",
            remedy=f"Call {name}.eval() before the loop.",
        )


def _may_be_evaluated(module: Module, made: list[Call]) -> bool:
    """Whether the program puts a teacher into evaluation mode, or updates it, as a mean teacher."""
    homes = [each.module.function_of(each.node) for each in made]
    for other in program_modules(module):
        for call in calls_named(other, "eval", "train"):
            if call.receiver is None or (
                call.method == "train" and call.argument("mode", 0).flag is not False
            ):
                continue
            # A function that creates the teacher.
            function = other.function_of(call.node)
            is_home = function is not None and (function in homes or "teacher" in function.name.lower())
            if is_home or is_applied_to_teacher(other, call.receiver):
                return True
        for call in calls_named(other, "parameters", "named_parameters", "state_dict"):
            if (
                call.receiver is not None
                and _is_in_zip(other, call)
                and is_applied_to_teacher(other, call.receiver)
            ):
                return True
    return False


def _is_in_zip(module: Module, call: Call) -> bool:
    """Whether the parameters are paired with others, to be updated from them."""
    around = module.enclosing(call.node, ast.Call)
    return isinstance(around, ast.Call) and isinstance(around.func, ast.Name) and around.func.id == "zip"
