"""The model is trained with one framework version and served with another.

Pickled models, operators and defaults change between versions: a model saved by a newer version may not load in an
older one, or may return different results. The rule compares a model object that serves an estimator's own
`model_data`.

Bad:

    from sagemaker.pytorch import PyTorch, PyTorchModel

    estimator = PyTorch(entry_point="train.py", role="role", framework_version="2.3", py_version="py311")
    model = PyTorchModel(
        model_data=estimator.model_data, role="role", entry_point="serve.py",
        framework_version="1.13", py_version="py39",  # <-
    )

Good:

    from sagemaker.pytorch import PyTorch, PyTorchModel

    estimator = PyTorch(entry_point="train.py", role="role", framework_version="2.3", py_version="py311")
    model = PyTorchModel(
        model_data=estimator.model_data, role="role", entry_point="serve.py",
        framework_version="2.3", py_version="py311",
    )

Quiet: the training version is unknown

    from sagemaker.pytorch import PyTorch, PyTorchModel

    estimator = PyTorch(entry_point="train.py", role="role", framework_version="2.3", py_version="py311")
    model = PyTorchModel(
        model_data="s3://bucket/model.tar.gz", role="role", entry_point="serve.py",
        framework_version="1.13", py_version="py39",
    )

Quiet: only the patch release differs

    from sagemaker.pytorch import PyTorch, PyTorchModel

    estimator = PyTorch(entry_point="train.py", role="role", framework_version="2.3.0", py_version="py311")
    model = PyTorchModel(
        model_data=estimator.model_data, role="role", entry_point="serve.py",
        framework_version="2.3", py_version="py311",
    )
"""

import ast
import re

from gpuproof.findings import Severity
from gpuproof.linter.analysis.call import origin_call
from gpuproof.linter.analysis.module import Module
from gpuproof.linter.analysis.usage import uses
from gpuproof.linter.jobs import sdk_v2
from gpuproof.linter.project import Project
from gpuproof.linter.rule import Hits, Rule
from gpuproof.util.versions import version_key

_CONVERTS = re.compile(r"^(torch\.jit|torch\.onnx|onnx|onnxruntime)\.")
"""Formats that do not depend on the version."""

rule = Rule("FW112", "train-serve-version-skew", Severity.WARNING, when="link", needs=("model_data",))


@rule.module
def check(module: Module, _: Project) -> Hits:
    if not module.imports("sagemaker") or uses(module, _CONVERTS, "call", "name"):
        return
    for model in sdk_v2.models(module):
        data = module.origin(model.call.expression("model_data", 0)) if model.call is not None else None
        if not isinstance(data, ast.Attribute) or data.attr != "model_data" or not model.image.is_unset:
            continue
        trained = origin_call(module, data.value)
        if trained is None or (trained.name or "").rpartition(".")[2] not in sdk_v2.FRAMEWORKS:
            continue
        keyword = "transformers_version" if model.framework == "huggingface" else "framework_version"
        before, after = trained.argument(keyword), model.framework_version
        if not before.is_known or not after.is_known or not before.text or not after.text:
            continue
        if sdk_v2.FRAMEWORKS[(trained.name or "").rpartition(".")[2]] != model.framework:
            continue
        if version_key(before.text)[:2] != version_key(after.text)[:2]:
            yield rule.hit(
                model.where(after),
                f"Trained with {before.text} but served with {after.text}.",
                remedy=f'Serve with {keyword}="{before.text}", or train with {after.text}.',
            )
