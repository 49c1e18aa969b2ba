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
from gpuproof.linter.analysis.module import Module
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
    if not loads or (from_hub and not has_data):
        return
    line = module.span(function)
    yield rule.hit(
        Span(line.unit, line.line, line.column, line.line, len(module.unit.lines[line.line - 1]) + 1),
        f"`model_fn` never uses `{name}`: model.tar.gz is ignored, and the endpoint serves `{_shorten(loads[0])}`.",
        remedy=f'Load from that folder: os.path.join({name}, "model.pth").',
    )


def _shorten(call: Call) -> str:
    text = " ".join(call.module.text(call.node).split())
    return text if len(text) <= 50 else f"{text[:47]}..."


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
