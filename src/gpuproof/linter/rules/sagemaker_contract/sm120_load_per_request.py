"""`predict_fn` runs for every request: a model that it loads is read, and moved to the GPU, for every request.

Each response then takes as long as a startup, and workers that load at the same time all need the memory. `model_fn`
runs once per worker, and its return value is passed to `predict_fn` as the second argument.

Bad:

    import torch

    def model_fn(model_dir):
        return model_dir

    def predict_fn(data, model_dir):
        model = torch.jit.load(model_dir + "/model.pt")  # <-
        return model(data)

Bad: by the handler's own function

    import torch

    def model_fn(model_dir):
        return torch.jit.load(model_dir + "/model.pt")

    def predict_fn(data, model):
        model = model_fn("/opt/ml/model")  # <-
        return model(data)

Good:

    import torch

    def model_fn(model_dir):
        return torch.jit.load(model_dir + "/model.pt")

    def predict_fn(data, model):
        with torch.inference_mode():
            return model(data)

Quiet: loaded once and kept

    import torch

    cached = None

    def model_fn(model_dir):
        return model_dir

    def predict_fn(data, model_dir):
        global cached
        if cached is None:
            cached = torch.jit.load(model_dir + "/model.pt")
        return cached(data)

Quiet: a small tokenizer

    import torch
    from transformers import AutoTokenizer

    def model_fn(model_dir):
        return torch.jit.load(model_dir + "/model.pt")

    def predict_fn(data, model):
        tokenizer = AutoTokenizer.from_pretrained("bert-base-uncased")
        return model(**tokenizer(data))

Quiet: a tensor in the request

    import io
    import pickle
    import torch

    def model_fn(model_dir):
        return torch.jit.load(model_dir + "/model.pt")

    def input_fn(data, content_type):
        return torch.load(io.BytesIO(data))

    def predict_fn(data, model):
        return model(torch.load(data))
"""

import ast

from gpuproof.findings import Severity
from gpuproof.linter.analysis.call import Call, all_calls, calls_within, local_function
from gpuproof.linter.analysis.module import Module
from gpuproof.linter.knowledge.contract.inference_handlers import (
    first_parameter,
    is_handler,
    loads_model,
    positional_parameters,
)
from gpuproof.linter.project import Project
from gpuproof.linter.rule import Hits, Rule

rule = Rule("SM120", "load-per-request", Severity.ERROR, needs=("predict_fn", "transform_fn"))


@rule.module
def check(module: Module, _: Project) -> Hits:
    if not is_handler(module):
        return
    for name in ("predict_fn", "transform_fn"):
        function = module.functions.get(name)
        if function is None:
            continue
        data = positional_parameters(function)[1:2] if name == "transform_fn" else []
        body = data[0].arg if data else first_parameter(function)
        for call in calls_within(all_calls(module), function):
            if not (loads_model(call) or _runs_model_fn(call)) or module.enclosing(
                call.node, ast.If, ast.Try, ast.ExceptHandler
            ):
                continue
            if body is not None and _reads(call, body):
                continue
            yield rule.hit(
                call.span,
                f"`{name}` loads the model for every request, which delays each response.",
                remedy="Load it in model_fn and return it; the toolkit passes it to "
                f"{'predict_fn as its second' if name == 'predict_fn' else 'transform_fn as its first'} argument.",
            )
            break


def _runs_model_fn(call: Call) -> bool:
    """Whether a function calls the handler's own `model_fn`."""
    function = local_function(call)
    return function is not None and function.name == "model_fn"


def _reads(call: Call, name: str) -> bool:
    """Whether the loaded data comes from the request."""
    arguments = [*call.node.args, *(keyword.value for keyword in call.node.keywords)]
    return any(
        (isinstance(node, ast.Name) and node.id == name)
        or (isinstance(node, ast.Attribute) and node.attr == "BytesIO")
        for argument in arguments
        for node in ast.walk(argument)
    )
