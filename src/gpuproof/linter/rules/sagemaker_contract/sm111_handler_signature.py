"""The serving toolkit calls the functions of an inference script by position, with a fixed number of arguments.

They are `model_fn(model_dir)`, `input_fn(data, content_type)`, `predict_fn(data, model)`, `output_fn(prediction,
accept)` and `transform_fn(model, data, content_type, accept)`; newer toolkits pass a context as one more argument to
functions that accept it. Any other number is a TypeError: with `model_fn` the endpoint never becomes available, with
the others each request fails with status 500.

Bad:

    import torch

    def model_fn(model_dir):
        return torch.jit.load(model_dir + "/model.pt")

    def input_fn(data):  # <-
        return torch.tensor(data)

    def predict_fn(data, model):
        return model(data)

Fixed:

    import torch

    def model_fn(model_dir):
        return torch.jit.load(model_dir + "/model.pt")

    def input_fn(data, content_type):
        return torch.tensor(data)

    def predict_fn(data, model):
        return model(data)

Bad:

    def model_fn():  # <-
        return load()

    def predict_fn(data, model):
        return model(data)

Good:

    def model_fn(model_dir):
        return load(model_dir)

    def input_fn(data, content_type):
        return data

    def predict_fn(data, model):
        return model(data)

Bad: in the wrong order

    import torch

    def model_fn(model_dir):
        return torch.jit.load(model_dir + "/model.pt")

    def predict_fn(model, data):  # <-
        with torch.inference_mode():
            return model(data)

Quiet: names that say nothing

    import torch

    def model_fn(model_dir):
        return torch.jit.load(model_dir + "/model.pt")

    def predict_fn(model_input, net):
        with torch.inference_mode():
            return net(model_input)

Quiet: a context, defaults and `*args`

    def model_fn(model_dir, context=None):
        return load(model_dir)

    def input_fn(*args):
        return args[0]

    def predict_fn(data, model, context):
        return model(data)

    def output_fn(prediction, accept="application/json"):
        return prediction

Quiet: the model_fn of TensorFlow's estimators

    import tensorflow as tf

    def model_fn(features, labels, mode, params):
        return tf.estimator.EstimatorSpec(mode)

    def input_fn():
        return tf.data.Dataset.range(3)

Quiet: an explainer's function

    def predict_fn(images):
        return network.predict(images)
"""

import ast
import re

from gpuproof.findings import Severity
from gpuproof.linter.analysis.module import Module
from gpuproof.linter.analysis.syntax_index import FunctionNode
from gpuproof.linter.knowledge.contract.inference_handlers import (
    PARAMETERS,
    is_handler,
    positional_parameters,
)
from gpuproof.linter.project import Project
from gpuproof.linter.rule import Hits, Rule
from gpuproof.linter.source.edit import Edit, Fix
from gpuproof.linter.source.span import Span
from gpuproof.util.humanize import pluralize

_MODEL = re.compile(r"(^|_)(model|net|network|classifier|encoder|embedder|pipe|pipeline)s?$")
_TYPE = re.compile(r"^(request_|response_)?(content_?type|accept|accept_type|mimetype)$")
rule = Rule("SM111", "handler-signature", Severity.ERROR, needs=("model_fn", "predict_fn", "output_fn"))


@rule.module
def check(module: Module, _: Project) -> Hits:
    if not is_handler(module):
        return
    for name, expected in PARAMETERS.items():
        function = module.functions.get(name)
        if function is None or function.decorator_list or function.args.vararg is not None:
            continue
        if any(value is None for value in function.args.kw_defaults):
            continue
        given = positional_parameters(function)
        required = len(given) - len(function.args.defaults)
        call = f"{name}({', '.join(expected)})"
        if required <= len(expected) + 1 and len(given) >= len(expected):
            if _are_swapped(name, function, [argument.arg for argument in given]):
                yield rule.hit(
                    _head(module, function),
                    f"`{name}` takes `{given[0].arg}` first and `{given[1].arg}` second; SageMaker's toolkit calls `{call}`: "
                    "each gets the other's value.",
                    remedy=f"Write def {name}({', '.join(_in_order(given))}).",
                )
            continue
        yield rule.hit(
            _head(module, function),
            f"`{name}` takes {pluralize(required, 'argument')}; SageMaker's toolkit calls "
            f"`{call}` with {len(expected)}: a TypeError "
            + ("when the endpoint starts." if name == "model_fn" else "for each request."),
            remedy=f"Write def {call}.",
            fix=_add_parameters(module, function, expected),
        )


def _in_order(given: list[ast.arg]) -> list[str]:
    return [argument.arg for argument in (given[1], given[0], *given[2:])]


def _are_swapped(name: str, function: FunctionNode, given: list[str]) -> bool:
    """Whether the first two parameters are in the wrong order, by their names, and for a model by its use."""
    match name:
        case "predict_fn":
            model, data = given[:2]
        case "transform_fn":
            data, model = given[:2]
        case "input_fn" | "output_fn":
            return bool(_TYPE.search(given[0])) and not _TYPE.search(given[1])
        case _:
            return False
    return bool(_MODEL.search(model)) and not _MODEL.search(data) and _is_run(function, model)


def _is_run(function: FunctionNode, name: str) -> bool:
    """Whether a function calls a variable, or `predict` or `generate` of it."""
    for node in ast.walk(function):
        match node:
            case ast.Call(func=ast.Name(id=called)) if called == name:
                return True
            case ast.Call(
                func=ast.Attribute(value=ast.Name(id=called), attr="predict" | "generate" | "encode")
            ):
                if called == name:
                    return True
            case _:
                continue
    return False


def _head(module: Module, function: FunctionNode) -> Span:
    span = module.span(function)
    return Span(span.unit, span.line, span.column, span.line, len(module.unit.lines[span.line - 1]) + 1)


def _add_parameters(module: Module, function: FunctionNode, expected: tuple[str, ...]) -> Fix | None:
    """Adds the missing parameters after the last one, if none has a default."""
    given = function.args.args
    if not given or function.args.defaults or function.args.kwonlyargs or len(given) >= len(expected):
        return None
    names = list(expected[len(given) :])
    if {argument.arg for argument in given} & set(names) or any(_uses(function, name) for name in names):
        return None
    last = module.span(given[-1])
    at = Span(last.unit, last.end_line, last.end_column, last.end_line, last.end_column)
    return Fix(f"Add {', '.join(names)}", (Edit(at, "".join(f", {name}" for name in names)),), safe=True)


def _uses(function: FunctionNode, name: str) -> bool:
    return any(isinstance(node, ast.Name) and node.id == name for node in ast.walk(function))
