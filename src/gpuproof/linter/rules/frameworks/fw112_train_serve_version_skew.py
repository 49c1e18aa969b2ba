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

Quiet: the training script exports to ONNX, which any version loads

    # file: launch.py
    from sagemaker.pytorch import PyTorch, PyTorchModel

    estimator = PyTorch(entry_point="train.py", role="role", framework_version="2.3", py_version="py311")
    model = PyTorchModel(
        model_data=estimator.model_data, role="role", entry_point="serve.py",
        framework_version="1.13", py_version="py39",
    )
    # file: train.py
    import torch

    model = torch.nn.Linear(4, 1)
    torch.onnx.export(model, (torch.ones(4),), "/opt/ml/model/model.onnx")

Quiet: only the patch release differs

    from sagemaker.pytorch import PyTorch, PyTorchModel

    estimator = PyTorch(entry_point="train.py", role="role", framework_version="2.3.0", py_version="py311")
    model = PyTorchModel(
        model_data=estimator.model_data, role="role", entry_point="serve.py",
        framework_version="2.3", py_version="py311",
    )
"""

import ast

from gpuproof.findings import Severity
from gpuproof.linter.analysis.call import Call, origin_call
from gpuproof.linter.analysis.local_imports import local_modules
from gpuproof.linter.analysis.module import Module
from gpuproof.linter.analysis.usage import is_message
from gpuproof.linter.jobs.definition import JobDefinition
from gpuproof.linter.jobs.readers import sdk_v2
from gpuproof.linter.knowledge.contract.model_exports import handles_exports
from gpuproof.linter.project import Project
from gpuproof.linter.rule import Hits, Rule
from gpuproof.util.versions import version_key

rule = Rule("FW112", "train-serve-version-skew", Severity.WARNING, when="link", needs=("model_data",))


@rule.module
def check(module: Module, project: Project) -> Hits:
    if not module.imports("sagemaker"):
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
        if version_key(before.text)[:2] != version_key(after.text)[:2] and not _is_exported(
            project, trained, model
        ):
            yield rule.hit(
                model.where(after),
                f"Trained with {before.text} but served with {after.text}.",
                remedy=f'Serve with {keyword}="{before.text}", or train with {after.text}.',
            )


def _is_exported(project: Project, trained: Call, model: JobDefinition) -> bool:
    """Whether the artifact is TorchScript or ONNX, which load in any version: its scripts or the launcher handle it so."""
    scripts = [
        job.script
        for job in project.jobs
        if (job.call is not None and job.call.node is trained.node)
        or (job.model is not None and job.model.call is not None and job.model.call.node is _node(model))
    ]
    if any(
        handles_exports(local) for script in scripts if script is not None for local in local_modules(script)
    ):
        return True
    # A launcher that converts the artifact reads it from its address.
    return handles_exports(trained.module) and any(
        node.attr == "model_data"
        and not is_message(trained.module, node)
        and not _is_served(trained.module, node)
        and (made := origin_call(trained.module, node.value)) is not None
        and made.node is trained.node
        for node in trained.module.nodes(ast.Attribute)
    )


def _node(model: JobDefinition) -> ast.Call | None:
    return model.call.node if model.call is not None else None


def _is_served(module: Module, node: ast.AST) -> bool:
    """Whether an expression is an argument of one of the SDK's model objects."""
    models = {_node(model) for model in sdk_v2.models(module)} - {None}
    return any(ancestor in models for ancestor in module.tree.ancestors(node))
