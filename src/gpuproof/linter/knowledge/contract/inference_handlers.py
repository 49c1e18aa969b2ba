"""Inference handlers: the functions that SageMaker's serving toolkits call by name in an endpoint's script.

Source: sagemaker-inference-toolkit `transformer.py`: `model_fn(model_dir)`, `input_fn(data, content_type)`,
`predict_fn(data, model)`, `output_fn(prediction, accept)`, `transform_fn(model, data, content_type, accept)`, each with
one more argument for a context where the function takes it. 2026-11-21.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from gpuproof.linter.analysis.call import Call
from gpuproof.linter.analysis.module import Module
from gpuproof.linter.analysis.syntax_index import FunctionNode
from gpuproof.linter.analysis.usage import uses

PARAMETERS = {
    "model_fn": ("model_dir",),
    "input_fn": ("data", "content_type"),
    "predict_fn": ("data", "model"),
    "output_fn": ("prediction", "accept"),
    "transform_fn": ("model", "data", "content_type", "accept"),
}
"""The arguments that the toolkit passes to each function, in order."""

_LOADERS = frozenset(
    [
        "torch.load",
        "torch.jit.load",
        "torch.hub.load",
        "joblib.load",
        "pickle.load",
        "dill.load",
        "keras.models.load_model",
        "keras.saving.load_model",
        "tensorflow.keras.models.load_model",
        "tensorflow.saved_model.load",
        "tensorflow.keras.saving.load_model",
        "transformers.pipeline",
        "onnxruntime.InferenceSession",
        "tensorflow_hub.load",
        "mlflow.pytorch.load_model",
        "mlflow.pyfunc.load_model",
        "catboost.load_model",
        "spacy.load",
        "timm.create_model",
    ]
)
_ESTIMATORS = re.compile(r"^(tensorflow|tensorflow\.compat\.v1)\.estimator(\.|$)|(^|\.)EstimatorSpec$")
_NOT_MODELS = ("Tokenizer", "Processor", "Config", "FeatureExtractor", "Scheduler", "Tokenize")
"""Words in the names of classes whose `from_pretrained` does not load a model."""


def is_handler(module: Module) -> bool:
    """Whether a file is certainly written for the SageMaker serving toolkits.

    TensorFlow's estimators have a `model_fn(features, labels, mode)` and an `input_fn()` of their own, and explainers
    have a `predict_fn`; two of the functions must be there, and nothing of the estimators.
    """
    own = {name for name in PARAMETERS if name in module.functions}
    if not own or uses(module, _ESTIMATORS, "name", "call"):
        return False
    if "model_fn" in own:
        first = (first_parameter(module.functions["model_fn"]) or "").lower()
        if "dir" in first or "path" in first:
            return True
    if module.imports("shap", "lime"):
        return False
    if "model_fn" in own:
        return bool(own & {"predict_fn", "output_fn", "transform_fn"})
    return {"input_fn", "predict_fn"} <= own or {"predict_fn", "output_fn"} <= own


def positional_parameters(function: FunctionNode) -> list[ast.arg]:
    """The positional parameters of a function."""
    return [*function.args.posonlyargs, *function.args.args]


def first_parameter(function: FunctionNode) -> str | None:
    """The name of the first parameter of a function."""
    found = positional_parameters(function)
    return found[0].arg if found else None


def defines_name(module: Module, name: str) -> bool:
    """Whether a module may define a name: as a function, by an import or an assignment, or by `import *`."""
    names = module.names
    bound = names.bindings(module.tree.root)
    return name in module.functions or name in names.imports or name in bound or names.has_star


def uses_of(function: FunctionNode, name: str) -> Iterator[ast.Name]:
    """The uses of a name in the body of a function."""
    for statement in function.body:
        for node in ast.walk(statement):
            if isinstance(node, ast.Name) and node.id == name:
                yield node


def loads_model(call: Call) -> bool:
    """Whether a call loads model weights."""
    name = call.name or ""
    if name in _LOADERS:
        return True
    if call.method == "from_pretrained" and call.receiver is not None:
        holder = call.module.text(call.receiver)
        return holder[:1].isupper() and not any(part in holder for part in _NOT_MODELS)
    if name.startswith("torchvision.models."):
        weights = call.argument("pretrained", 0)
        named = call.argument("weights")
        return weights.flag is True or named.text is not None or "weights" in call.keywords
    return False


def is_placeholder(function: FunctionNode) -> bool:
    """Whether the body of a function is a placeholder: a docstring, `pass`, `...`, or an exception."""
    return all(
        isinstance(statement, (ast.Pass, ast.Raise))
        or (isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant))
        for statement in function.body
    )
