"""`predict_fn` runs for every request: a model that it loads is read, and moved to the GPU, for every request.

Each response then takes as long as a startup, and workers that load at the same time all need the memory. `model_fn`
runs once per worker, and its return value is passed to `predict_fn` as the second argument. The same is true of the
functions that FastAPI, Flask, Triton, TorchServe and LitServe call for each request, and of functions that these call.

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

Bad: by a helper, in a server of FastAPI

    import torch
    from fastapi import FastAPI

    app = FastAPI()

    def load_encoder(folder):
        encoder = torch.jit.load(f"{folder}/encoder.pt", map_location="cuda")
        return encoder.eval()

    @torch.inference_mode()
    def embed(tokens):
        encoder = load_encoder("/opt/ml/model")  # <-
        return encoder(tokens.to("cuda")).cpu()

    @app.post("/invocations")
    def invocations(request: dict):
        return {"vectors": embed(torch.tensor(request["tokens"])).tolist()}

Bad: by the model of a Triton server

    import torch
    import triton_python_backend_utils as pb_utils

    class TritonPythonModel:
        def initialize(self, args):
            self.folder = args["model_repository"]

        def execute(self, requests):
            model = torch.jit.load(self.folder + "/1/model.pt").cuda()  # <-
            return [self.answer(model, request) for request in requests]

        def answer(self, model, request):
            return pb_utils.InferenceResponse(output_tensors=[])

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

Quiet: a helper that keeps what it loaded

    import functools
    import torch
    from flask import Flask, request

    app = Flask(__name__)
    models = {}

    @functools.lru_cache
    def encoder():
        return torch.jit.load("/opt/ml/model/encoder.pt")

    def ranker(name):
        if name in models:
            return models[name]
        models[name] = torch.jit.load("/opt/ml/model/ranker.pt")
        return models[name]

    @app.route("/invocations", methods=["POST"])
    def invocations():
        with torch.inference_mode():
            return ranker("small")(encoder()(torch.tensor(request.json))).tolist()

Quiet: the request names the model

    import torch
    from fastapi import FastAPI

    app = FastAPI()

    def load(path):
        return torch.jit.load(path)

    @app.post("/models/{name}")
    def run(name: str, values: list[float]):
        path = f"/models/{name}.pt"
        model = load(path)
        with torch.inference_mode():
            return model(torch.tensor(values)).tolist()
"""

import ast
from collections.abc import Iterator

from gpuproof.findings import Severity
from gpuproof.linter.analysis.call import Call, local_function
from gpuproof.linter.analysis.flow.call_targets import Definition, find_method
from gpuproof.linter.analysis.flow.called import own_calls
from gpuproof.linter.analysis.flow.sources import targets
from gpuproof.linter.analysis.module import Module
from gpuproof.linter.knowledge.contract.inference_handlers import loads_model
from gpuproof.linter.knowledge.contract.request_functions import (
    WORDS,
    RequestFunction,
    parameters,
    request_functions,
)
from gpuproof.linter.project import Project
from gpuproof.linter.rule import Hits, Rule

rule = Rule("SM120", "load-per-request", Severity.ERROR, needs=WORDS)

_MAX_DEPTH = 3
_CONDITIONS = (ast.If, ast.IfExp, ast.BoolOp, ast.Try, ast.ExceptHandler)
_REMEDIES = {
    "predict_fn": "Load it in model_fn and return it; the toolkit passes it to predict_fn as its second argument.",
    "transform_fn": "Load it in model_fn and return it; the toolkit passes it to transform_fn as its first argument.",
}


@rule.module
def check(module: Module, _: Project) -> Hits:
    found: set[ast.AST] = set()
    for function in request_functions(module):
        call = next(_loads(module, function, 0), None)
        if call is None or call.node in found:
            continue
        found.add(call.node)
        name = function.node.name
        yield rule.hit(
            call.span,
            f"`{name}` loads the model for every request, which delays each response.",
            remedy=_REMEDIES.get(name, "Load it once, when the server starts, and keep it."),
        )


def _loads(module: Module, function: RequestFunction, depth: int) -> Iterator[Call]:
    """The calls that load a model whenever a function runs: its own, those of a helper that loads, or deeper ones."""
    data = _derived_names(function)
    for node in own_calls(module, function.node):
        call = Call(node, module)
        if _is_conditional(module, call):
            continue
        is_named = _reads(call, data)
        if loads_model(call) or _runs_model_fn(call):
            if not is_named:
                yield call
            continue
        for helper in _helpers(module, call):
            if any(_loads_itself(helper.module, inner) for inner in own_calls(*helper)):
                if not is_named:
                    yield call
            elif depth < _MAX_DEPTH and not isinstance(helper.node, ast.ClassDef):
                called = RequestFunction(helper.node, parameters(helper.node))
                yield from _loads(helper.module, called, depth + 1)


def _helpers(module: Module, call: Call) -> Iterator[Definition]:
    """The functions of the project that a call runs every time: none that may keep what they made."""
    for target in targets(module, call.node.func):
        helper = find_method(target, "__init__") if isinstance(target.node, ast.ClassDef) else target
        if helper is None or isinstance(helper.node, ast.ClassDef) or _may_cache(helper):
            continue
        if not any(
            isinstance(node, (ast.Global, ast.Nonlocal))
            or (isinstance(node, ast.If) and any(isinstance(inner, ast.Return) for inner in ast.walk(node)))
            for node in ast.walk(helper.node)
        ):
            yield helper


def _may_cache(function: Definition) -> bool:
    """Whether a decorator may keep the result of a function: any but those of torch."""
    decorators = function.node.decorator_list
    called = [decorator.func if isinstance(decorator, ast.Call) else decorator for decorator in decorators]
    return any(not (function.module.qualified(name) or "").startswith("torch.") for name in called)


def _loads_itself(module: Module, node: ast.Call) -> bool:
    call = Call(node, module)
    return loads_model(call) and not _is_conditional(module, call) and not _reads(call, frozenset())


def _is_conditional(module: Module, call: Call) -> bool:
    """Whether a call in a function may not run each time."""
    return module.enclosing(call.node, *_CONDITIONS) is not None


def _runs_model_fn(call: Call) -> bool:
    """Whether a function calls the handler's own `model_fn`."""
    function = local_function(call)
    return function is not None and function.name == "model_fn"


def _derived_names(function: RequestFunction) -> frozenset[str]:
    """The names of a function that hold the request, or something made of it."""
    names = set(function.data)
    for statement in ast.walk(function.node):
        if isinstance(statement, ast.Assign) and _names(statement.value) & names:
            names |= {name for target in statement.targets for name in _names(target)}
    return frozenset(names)


def _names(node: ast.AST) -> set[str]:
    return {name.id for name in ast.walk(node) if isinstance(name, ast.Name)}


def _reads(call: Call, data: frozenset[str]) -> bool:
    """Whether the loaded data comes from the request."""
    arguments = [*call.node.args, *(keyword.value for keyword in call.node.keywords)]
    return any(
        (isinstance(node, ast.Name) and node.id in data)
        or (isinstance(node, ast.Attribute) and node.attr == "BytesIO")
        for argument in arguments
        for node in ast.walk(argument)
    )
