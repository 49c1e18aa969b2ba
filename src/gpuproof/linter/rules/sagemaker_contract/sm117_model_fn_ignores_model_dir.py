"""`model_fn` gets the folder with the unpacked `model.tar.gz` but does not use it.

The endpoint then serves other weights than the trained ones: those that a library downloads at startup, which also
requires internet access, or a file that does not exist. The rule reports nothing if the script uses another name for
the folder, or if it loads a model from the Hugging Face Hub and no linked job has `model_data`.

Bad:

    import torch
    from torchvision.models import resnet50

    def model_fn(model_dir):  # <-
        model = resnet50(pretrained=True)
        return model.eval()

    def predict_fn(data, model):
        return model(data)

Bad: a variable that names no folder

    import os
    import torch

    def model_fn(model_dir):  # <-
        torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", "4")))
        return torch.jit.load("weights/model.pt", map_location="cpu")

    def predict_fn(data, model):
        return model(data)

Bad: a new model with random weights

    import torch
    from torch import nn

    def build(classes):
        return nn.Sequential(nn.Flatten(), nn.Linear(784, 64), nn.ReLU(), nn.Linear(64, classes))

    def model_fn(model_dir):  # <-
        model = build(10)
        return model.eval()

    def predict_fn(data, model):
        with torch.inference_mode():
            return model(data)

Good:

    import os
    import torch
    from torchvision.models import resnet50

    def model_fn(model_dir):
        model = resnet50()
        model.load_state_dict(torch.load(os.path.join(model_dir, "model.pth"), map_location="cpu"))
        return model.eval()

    def predict_fn(data, model):
        with torch.inference_mode():
            return model(data)

Quiet: a model from the Hub, on purpose

    from transformers import AutoModel

    def model_fn(model_dir):
        return AutoModel.from_pretrained("distilbert-base-uncased")

    def predict_fn(data, model):
        return model(data)

Quiet: the folder by another name

    import torch

    def model_fn(model_dir):
        return torch.load("/opt/ml/model/model.pth")

    def predict_fn(data, model):
        return model(data)

Bad: a new model of torchvision

    import torch
    from torchvision.models import resnet18

    class Classifier(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.backbone = resnet18(weights=None)
            self.head = torch.nn.Linear(1000, 2)

        def forward(self, x):
            return self.head(self.backbone(x).relu()).softmax(-1)

    def model_fn(model_dir):  # <-
        device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        return Classifier().to(device).eval()

    def predict_fn(data, model):
        with torch.inference_mode():
            return model(data)

Quiet: the weights are loaded with the first request

    import torch
    from torch import nn

    class Lazy(nn.Module):
        def __init__(self):
            super().__init__()
            self.net = None

        def forward(self, x):
            self.net = self.net or torch.jit.load("/opt/ml/model/model.pt")
            return self.net(x)

    def model_fn(model_dir):
        return Lazy()

    def predict_fn(data, model):
        with torch.inference_mode():
            return model(data)

Quiet: a helper loads the model

    from serving import load_everything

    def model_fn(model_dir):
        return load_everything()

    def predict_fn(data, model):
        return model(data)
"""

import ast
import re

from gpuproof.findings import Severity
from gpuproof.linter.analysis.call import Call, all_calls, calls_within
from gpuproof.linter.analysis.evaluation.evaluate import evaluate
from gpuproof.linter.analysis.flow.call_targets import Definition
from gpuproof.linter.analysis.flow.called import called_functions
from gpuproof.linter.analysis.flow.creations import creations
from gpuproof.linter.analysis.flow.sources import targets
from gpuproof.linter.analysis.module import Module
from gpuproof.linter.analysis.syntax_index import FunctionNode
from gpuproof.linter.analysis.usage import find_uses, reached, uses
from gpuproof.linter.knowledge.contract.inference_handlers import (
    first_parameter,
    is_handler,
    is_placeholder,
    loads_model,
    uses_of,
)
from gpuproof.linter.project import Project
from gpuproof.linter.rule import Hits, Rule
from gpuproof.linter.source.span import Span

rule = Rule("SM117", "model-fn-ignores-model-dir", Severity.WARNING, needs=("model_fn",))

_FOLDER = re.compile(r"/opt/ml|MODEL_DIR|MODEL_PATH")
_FOLDER_NAME = re.compile(r"MODEL|DIR|PATH|FOLDER|HOME|ROOT|BASE|ARTIFACT|WEIGHT|CHECKPOINT", re.IGNORECASE)
_VARIABLES = re.compile(r"^os\.(environ|getenv)\b")


@rule.module
def check(module: Module, project: Project) -> Hits:
    function = module.functions.get("model_fn")
    if function is None or not is_handler(module) or is_placeholder(function):
        return
    name = first_parameter(function)
    if name is None or name.startswith("_") or function.args.kwarg or any(uses_of(function, name)):
        return
    code = reached(module, function)
    if uses(module, _FOLDER, "string", within=code) or _reads_folder(module, code):
        return
    if any(isinstance(node, ast.Global) for node in ast.walk(function)):
        return
    loads = [call for call in calls_within(all_calls(module), function) if loads_model(call)]
    served = [
        job for job in project.jobs_running(module) if job.kind in ("endpoint", "transform") and job.model
    ]
    from_hub = [call for call in loads if call.method in ("from_pretrained", "pipeline", "create_model")]
    has_data = any(job.model is not None and job.model.argument("model_data").text for job in served)
    is_random = not loads and _has_random_weights(module, function)
    if (not loads and not is_random) or (from_hub and not has_data):
        return
    what = f"`{loads[0].module.excerpt(loads[0].node, 50)}`" if loads else "a new model with random weights"
    line = module.span(function)
    yield rule.hit(
        Span(line.unit, line.line, line.column, line.line, len(module.unit.lines[line.line - 1]) + 1),
        f"`model_fn` never uses `{name}`: model.tar.gz is ignored, and the endpoint serves {what}.",
        remedy=f'Load from that folder: os.path.join({name}, "model.pth").',
    )


_PLAIN = re.compile(
    r"^(torchvision\.models\.|torch\.(?!hub|load|jit|package|serialization)|super$|print$|len$|range$|isinstance$|int$|float$|logging\.)"
)
"""Calls that load no weights."""
_READS = re.compile(r"load|open|read|download|fetch|pretrained|^get$", re.IGNORECASE)
_PLAIN_METHODS = frozenset(
    {
        "eval",
        "train",
        "to",
        "cuda",
        "cpu",
        "half",
        "float",
        "append",
        "extend",
        "requires_grad_",
        "__init__",
        "info",
        "debug",
    }
)


def _has_random_weights(module: Module, function: FunctionNode) -> bool:
    """Whether a function certainly returns a model that it creates, and nothing that it runs can load weights."""
    returned = [node for node in module.nodes(ast.Return) if module.function_of(node) is function]
    if len(returned) != 1 or returned[0].value is None:
        return False
    created = creations(module, returned[0].value)
    if not created or not all(_is_module(call) for call in created):
        return False
    code = [Definition(module, function), *called_functions(module, function)]
    classes = [found for call in created for found in targets(call.module, call.node.func)]
    for definition in (*code, *classes):
        if uses(definition.module, _FOLDER, "string", within=definition.node):
            return False
        for call in calls_within(all_calls(definition.module), definition.node):
            if (
                _PLAIN.search(call.name or (call.method if call.receiver is None else ""))
                or call.method in _PLAIN_METHODS
            ):
                continue
            if _runs_layer(call) or _computes(call) or targets(definition.module, call.node.func):
                continue
            return False
    return True


def _is_module(call: Call) -> bool:
    """Whether a call creates a `torch.nn.Module`."""
    if (call.name or "").startswith(("torch.nn.", "torchvision.models.")):
        return True
    return any(
        isinstance(found.node, ast.ClassDef) and "torch.nn.Module" in found.module.bases(found.node)
        for found in targets(call.module, call.node.func)
    )


def _computes(call: Call) -> bool:
    """Whether a call is part of a forward pass, and reads no file."""
    function = call.module.function_of(call.node)
    return function is not None and function.name == "forward" and not _READS.search(call.method)


def _runs_layer(call: Call) -> bool:
    function = call.node.func
    return (
        isinstance(function, ast.Attribute)
        and isinstance(function.value, ast.Name)
        and function.value.id == "self"
    )


def _reads_folder(module: Module, code: list[ast.AST]) -> bool:
    """Whether an environment variable that is read may name the model's folder: not one such as LOG_LEVEL."""
    for use in find_uses(module, "name", "call", within=code):
        if not _VARIABLES.search(use.text):
            continue
        around = module.enclosing(use.node, ast.Call, ast.Subscript)
        read = use.node if isinstance(use.node, ast.Call) else around
        key = (
            read.slice
            if isinstance(read, ast.Subscript)
            else read.args[0]
            if isinstance(read, ast.Call) and read.args
            else None
        )
        name = evaluate(module, key).text if key is not None else None
        if name is None or _FOLDER_NAME.search(name):
            return True
    return False
