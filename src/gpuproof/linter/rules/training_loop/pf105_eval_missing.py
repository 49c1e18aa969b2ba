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

Bad: a class of its own that only scores

    import torch
    import torchvision

    class Scorer:
        def __init__(self, weights):
            self.model = torchvision.models.resnet18()
            self.model.load_state_dict(torch.load(weights))

        @torch.inference_mode()
        def run(self, batches):
            return [self.model(x).argmax(1) for x in batches]  # <-

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

Quiet: the model is switched with its parts

    import torch
    from torch import nn
    from data import sentences

    class Decoder(nn.Module):
        def __init__(self):
            super().__init__()
            self.dropout = nn.Dropout(0.5)

        def forward(self, x):
            return self.dropout(x)

    class Translator(nn.Module):
        def __init__(self, decoder):
            super().__init__()
            self.decoder = decoder

    decoder = Decoder()
    model = Translator(decoder)
    model.load_state_dict(torch.load("model.pt", weights_only=True))

    def translate(sentence):
        model.eval()
        with torch.no_grad():
            return model.decoder(sentence).argmax(1), decoder(sentence).argmax(1)

    for sentence in sentences:
        print(translate(sentence))

Quiet: a function that tries whether a model runs

    import torch
    from torch import nn

    def test():
        net = nn.Sequential(nn.Linear(8, 4), nn.BatchNorm1d(4))
        print(net(torch.randn(2, 8)).size())
"""

import ast
import re
from collections.abc import Iterator

from gpuproof.findings import Severity
from gpuproof.linter.analysis.call import Call, all_calls, calls_named, calls_within, origin_call
from gpuproof.linter.analysis.flow.call_targets import Definition, find_method
from gpuproof.linter.analysis.flow.called import called_functions
from gpuproof.linter.analysis.flow.creations import creations
from gpuproof.linter.analysis.flow.sources import targets
from gpuproof.linter.analysis.local_imports import local_modules, program_modules, star_imports
from gpuproof.linter.analysis.module import Module
from gpuproof.linter.analysis.syntax_index import FunctionNode
from gpuproof.linter.analysis.types import TypeKind, type_of
from gpuproof.linter.analysis.usage import moves_name, uses
from gpuproof.linter.knowledge.frameworks.torch import (
    has_evaluation_name,
    imports_device_manager,
    is_test,
)
from gpuproof.linter.knowledge.training.gradients import is_run
from gpuproof.linter.knowledge.training.scoring import scoring_runs
from gpuproof.linter.knowledge.unused_functions import used_calls
from gpuproof.linter.project import Project
from gpuproof.linter.rule import Hit, Hits, Rule

rule = Rule("PF105", "eval-missing", Severity.ERROR, needs=("torch",))

_WITHOUT_DATA = frozenset(f"torch.{name}" for name in ("rand", "randn", "zeros", "ones", "randint", "empty"))
_BACKWARD = re.compile(r"(^|\.)backward$")
_BEHAVES = re.compile(r"(^|\.)((Dropout|BatchNorm)\w*|Transformer(Encoder|Decoder)Layer)$")
_WITH_MODES = re.compile(r"torchvision\.models\.([a-z_]+\.)*[a-z]\w*$|^timm\.create_model$")
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
    found: set[ast.AST | None] = set()
    for function in module.nodes(ast.FunctionDef):
        if not has_evaluation_name(function) or uses(module, _BACKWARD, "call", within=function):
            continue
        run = _runs_model(module, function)
        if run is not None and not _is_of_random_data(module, run) and not _may_be_switched(module, run):
            found.add(function)
            yield _hit(module, run, f"the results of `{function.name}` are wrong")
    for run in scoring_runs(module):
        function = module.function_of(run.node)
        if function in found or not is_run(module, run) or not _behaves(module, run.node.func):
            continue
        if _is_of_random_data(module, run):
            continue
        if not _is_ever_switched(module, run):
            found.add(function)
            yield _hit(module, run, "its results are wrong")


def _hit(module: Module, run: Call, what: str) -> Hit:
    name = module.text(run.node.func)
    return rule.hit(
        run.span,
        f"`{name}` is never put into evaluation mode: dropout and batch normalization stay in training mode, and {what}.",
        remedy=f"Call {name}.eval() first, and .train() before the next epoch.",
    )


def _is_ever_switched(module: Module, run: Call) -> bool:
    """Whether a call anywhere in the program may put the model that runs into evaluation mode; true if in doubt."""
    own = {call.node for call in creations(module, run.node.func)}
    for other in program_modules(module):
        if any(_is_open_switch(call) for call in calls_named(other, "apply", "modules", "children")):
            return True
        for call in used_calls(other, calls_named(other, "eval", "train")):
            if call.receiver is None or (call.method == "train" and not call.node.args and not call.keywords):
                continue
            if call.method == "train" and call.argument("mode", 0).flag is True:
                continue
            made = creations(other, call.receiver)
            if not made or own & {part for item in made for part in _with_parts(item)}:
                return True
    return False


def _with_parts(made: Call) -> Iterator[ast.AST]:
    """The call that creates a model, and those that create its parts: its arguments, and what its class creates."""
    yield made.node
    for argument in (*made.node.args, *made.keywords.values()):
        yield from (part.node for part in creations(made.module, argument))
    for target in targets(made.module, made.node.func):
        for part in _initializers(target):
            yield from (call.node for call in calls_within(all_calls(part.module), part.node))


def _is_open_switch(call: Call) -> bool:
    """Whether code goes through the layers of a model, and may change the mode of each."""
    around = call.module.enclosing(call.node, ast.For)
    return around is not None and bool(calls_within(calls_named(call.module, "eval", "train"), around))


def _may_be_switched(module: Module, run: Call) -> bool:
    """Whether a call may put the model that runs into evaluation mode: `eval()`, or `train(mode)` with an argument.

    The model may have another name where it is switched: in a function of the project that gets it, or in a method.
    """
    model = run.node.func
    assert isinstance(model, ast.Name)
    function = module.function_of(run.node)
    own = {call.node for call in creations(module, model)}
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
            made = creations(module, call.receiver)
            if own & {part for item in made for part in _with_parts(item)}:
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


def _is_of_random_data(module: Module, run: Call) -> bool:
    """Whether a model runs once on a tensor without data, to see whether it runs: `net(torch.randn(1, 3, 32, 32))`."""
    made = [origin_call(module, argument) for argument in run.node.args]
    return (
        bool(made)
        and not module.loops_around(run.node)
        and all(call is not None and call.name in _WITHOUT_DATA for call in made)
    )


def _runs_model(module: Module, function: FunctionNode) -> Call | None:
    for call in all_calls(module):
        if module.function_of(call.node) is not function or not isinstance(call.node.func, ast.Name):
            continue
        if type_of(module, call.node.func).kind is TypeKind.MODULE and _behaves(module, call.node.func):
            return call
    return None


def _behaves(module: Module, node: ast.expr) -> bool:
    """Whether the model certainly has layers that differ between training and evaluation."""
    return any(map(_has_modes, creations(module, node)))


def _has_modes(made: Call) -> bool:
    if made.name is not None:
        if _WITH_MODES.match(made.name):
            return True
        # `nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.5))`
        if made.name.startswith("torch.nn."):
            return uses(made.module, _BEHAVES, "call", within=made.node)
    for target in targets(made.module, made.node.func):
        parts = [target, *_initializers(target)]
        owners = [part.module.enclosing(part.node, ast.ClassDef) or part.node for part in parts]
        if any(
            uses(part.module, _BEHAVES, "call", "name", within=owner)
            for part, owner in zip(parts, owners, strict=True)
        ):
            return True
    return False


def _initializers(owner: Definition) -> list[Definition]:
    """`__init__` of a class and of the classes that it creates, directly or not."""
    initializer = find_method(owner, "__init__")
    if initializer is None:
        return []
    inner = called_functions(initializer.module, initializer.node)
    return [
        initializer,
        *(part for part in inner if isinstance(part.node, ast.FunctionDef) and part.node.name == "__init__"),
    ]
