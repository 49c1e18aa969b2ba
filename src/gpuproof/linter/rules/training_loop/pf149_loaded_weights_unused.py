"""Weights are loaded and never used: the model starts from scratch.

`torch.load(path)` only returns the weights; without `load_state_dict` the model keeps its random ones. The script trains or serves without an
error, and its accuracy is that of an untrained model.

Bad:

    import torch

    model = torch.nn.Linear(4, 2)
    state = torch.load("model.pt", map_location="cpu")  # <-
    model.eval()

Bad: the result is thrown away

    import torch

    def model_fn(model_dir):
        model = torch.nn.Linear(4, 2)
        torch.load(f"{model_dir}/model.pt", map_location="cpu")  # <-
        return model.eval()

Good:

    import torch

    model = torch.nn.Linear(4, 2)
    state = torch.load("model.pt", map_location="cpu")
    model.load_state_dict(state)
    model.eval()

Quiet: shown, or used by other modules

    # file: weights.py
    import torch

    STATE = torch.load("model.pt", map_location="cpu")
    # file: show.py
    import torch
    from weights import STATE

    checkpoint = torch.load("model.pt", map_location="cpu")
    print(checkpoint.keys(), STATE)
"""

import ast

from gpuproof.findings import Severity
from gpuproof.linter.analysis.call import Call, calls_to
from gpuproof.linter.analysis.local_imports import program_modules
from gpuproof.linter.analysis.module import Module
from gpuproof.linter.knowledge.frameworks.torch import is_test
from gpuproof.linter.project import Project
from gpuproof.linter.rule import Hits, Rule

rule = Rule("PF149", "loaded-weights-unused", Severity.WARNING, needs=("torch.load", "import load"))


@rule.module
def check(module: Module, _: Project) -> Hits:
    if is_test(module) or module.unit.path.endswith((".ipynb", ".md")):
        return
    for call in calls_to(module, "torch.load"):
        if not _is_unused(module, call) or module.enclosing(call.node, ast.Try) is not None:
            continue
        yield rule.hit(
            call.span,
            f"What `{module.excerpt(call.node, 50)}` returns is never used: no model gets these weights.",
            remedy="Pass it to model.load_state_dict(...).",
        )


def _is_unused(module: Module, call: Call) -> bool:
    match module.parent(call.node):
        case ast.Expr():
            return True
        case ast.Assign(targets=[ast.Name(id=name)]):
            if module.tree.uses_of(name) or "__all__" in module.names.bindings(module.tree.root):
                return False
            if module.function_of(call.node) is not None:
                return True
            # Another module may import the name.
            return len(program_modules(module)) == 1
        case _:
            return False
