"""A model that is never put into evaluation mode keeps applying dropout and updating its batch statistics.

With dropout, predictions then change from call to call; with batch normalization, they depend on the rest of the
batch. Validation scores are wrong without a warning. The rule reports models that certainly have such layers, if
neither the script nor its own modules call `.eval()`.

Bad:

    import torch

    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.body = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Dropout(0.5))

        def forward(self, x):
            return self.body(x)

    def train(model, loader):
        for x, y in loader:
            model(x).sum().backward()

    def test(model, loader):
        with torch.no_grad():
            return [model(x) for x, y in loader]  # <-

    net = Net()
    train(net, [])
    test(net, [])

Bad: a handler

    import torch
    from torchvision.models import resnet50

    def model_fn(model_dir):
        model = resnet50(num_classes=7)
        model.load_state_dict(torch.load(f"{model_dir}/model.pt", map_location="cpu"))
        return model

    def predict_fn(data, model):
        with torch.inference_mode():
            return model(data)  # <-

Good:

    import torch

    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.body = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Dropout(0.5))

        def forward(self, x):
            return self.body(x)

    def test(model, loader):
        model.eval()
        with torch.no_grad():
            return [model(x) for x, y in loader]

    test(Net(), [])

Quiet: no layer depends on the mode

    import torch

    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.body = torch.nn.Linear(4, 4)

        def forward(self, x):
            return self.body(x)

    def test(model, loader):
        with torch.no_grad():
            return [model(x) for x, y in loader]

    test(Net(), [])

Quiet: from_pretrained returns a model in evaluation mode

    import torch
    from transformers import AutoModel

    def predict(model, x):
        with torch.no_grad():
            return model(x)

    predict(AutoModel.from_pretrained("bert-base-uncased"), None)
"""

import ast
import re

from gpuproof.findings import Severity
from gpuproof.linter.analysis.call import Call, all_calls, calls_named
from gpuproof.linter.analysis.flow.creations import creations
from gpuproof.linter.analysis.local_imports import local_modules, star_imports
from gpuproof.linter.analysis.module import Module
from gpuproof.linter.analysis.syntax_index import FunctionNode
from gpuproof.linter.analysis.types import TypeKind, type_of
from gpuproof.linter.analysis.usage import moves_name, uses
from gpuproof.linter.knowledge.torch import (
    has_evaluation_name,
    imports_device_manager,
    is_test,
)
from gpuproof.linter.project import Project
from gpuproof.linter.rule import Hits, Rule

rule = Rule("PF105", "eval-missing", Severity.ERROR, needs=("torch",))

_BACKWARD = re.compile(r"(^|\.)backward$")
_BEHAVES = re.compile(r"(^|\.)(Dropout|BatchNorm)\w*$")
_WITH_MODES = re.compile(r"torchvision\.models\.([a-z_]+\.)*[a-z]\w*$")
"""All models of torchvision have dropout, batch normalization or stochastic depth."""


@rule.module
def check(module: Module, _: Project) -> Hits:
    if (
        not module.imports("torch")
        or imports_device_manager(module)
        or is_test(module)
        or (starred := star_imports(module)) is None
        or any(map(imports_device_manager, starred))
    ):
        return
    for function in module.nodes(ast.FunctionDef):
        if not has_evaluation_name(function) or uses(module, _BACKWARD, "call", within=function):
            continue
        run = _runs_model(module, function)
        if run is not None and not _may_be_switched(module, run):
            yield rule.hit(
                run.span,
                f"`{module.text(run.node.func)}` is never put into evaluation mode: dropout and batch normalization stay "
                f"in training mode, and the results of `{function.name}` are wrong.",
                remedy=f"Call {module.text(run.node.func)}.eval() first, and .train() before the next epoch.",
            )


def _may_be_switched(module: Module, run: Call) -> bool:
    """Whether a call may put the model that runs into evaluation mode: `eval()`, or `train(mode)` with an argument.

    The model may have another name where it is switched: in a function of the project that gets it, or in a method.
    """
    model = run.node.func
    assert isinstance(model, ast.Name)
    function = module.function_of(run.node)
    for local in local_modules(module):
        for call in calls_named(local, "eval", "train"):
            if call.receiver is None or (
                call.method == "train" and not (call.node.args or call.node.keywords)
            ):
                continue
            if call.method == "train" and call.argument("mode", 0).flag is True:
                continue
            if local is not module:
                # A function of another file may get the model, if this file calls it.
                around = local.function_of(call.node)
                if around is not None and calls_named(module, around.name):
                    return True
                continue
            if not isinstance(call.receiver, ast.Name):
                return True
            if moves_name(module, model, [call]):
                return True
            if function is not None and _is_of_caller(module, function, call):
                return True
    return False


def _is_of_caller(module: Module, function: FunctionNode, switch: Call) -> bool:
    """Whether a caller of the evaluation function, or the `model_fn` of a handler, switches the model that it passes."""
    loads = module.functions.get("model_fn")
    if loads is not None and module.function_of(switch.node) is loads:
        return function.name in ("predict_fn", "transform_fn")
    passed = [
        keyword
        for call in calls_named(module, function.name)
        for keyword in (*call.node.args, *call.keywords.values())
        if isinstance(keyword, ast.Name)
    ]
    return any(moves_name(module, item, [switch]) for item in passed)


def _runs_model(module: Module, function: FunctionNode) -> Call | None:
    for call in all_calls(module):
        if module.function_of(call.node) is not function or not isinstance(call.node.func, ast.Name):
            continue
        if type_of(module, call.node.func).kind is TypeKind.MODULE and _behaves(module, call.node.func):
            return call
    return None


def _behaves(module: Module, node: ast.Name) -> bool:
    """Whether the model certainly has layers that differ between training and evaluation."""
    for maker in creations(module, node):
        owner = module.classes.get(maker.method) if isinstance(maker.node.func, ast.Name) else None
        if owner is not None and uses(module, _BEHAVES, "call", "name", within=owner):
            return True
        if maker.name is not None and _WITH_MODES.match(maker.name):
            return True
    return False
