"""The call fails because a required argument is missing.

Some arguments have the default None but are required: `deploy(initial_instance_count=1)` raises ValueError after the
model was created, because it has neither an instance type nor a serverless configuration; `fit()` of an estimator
without the number of instances raises it as well. Framework versions are checked by FW110.

Bad:

    from sagemaker.pytorch import PyTorchModel

    model = PyTorchModel(model_data="s3://bucket/model.tar.gz", role="role", entry_point="inference.py")
    model.deploy(initial_instance_count=1)  # <-

Bad:

    from sagemaker.transformer import Transformer

    Transformer(model_name="model", instance_count=1)  # <-

Bad: the number of instances has no default

    from sagemaker.pytorch import PyTorch

    estimator = PyTorch(  # <-
        entry_point="train.py", role="role", framework_version="2.6", py_version="py312", instance_type="ml.g5.xlarge",
    )
    estimator.fit()

Quiet: it is set later, or the instances are groups

    from sagemaker.instance_group import InstanceGroup
    from sagemaker.pytorch import PyTorch

    workers = InstanceGroup("workers", "ml.g5.xlarge", 2)
    PyTorch(
        entry_point="train.py", role="role", framework_version="2.6", py_version="py312", instance_groups=[workers],
    ).fit()
    estimator = PyTorch(
        entry_point="train.py", role="role", framework_version="2.6", py_version="py312", instance_type="ml.g5.xlarge",
    )
    estimator.instance_count = 2
    estimator.fit()

Quiet: an estimator for one instance only, or one that is never fitted

    from sagemaker.pytorch import PyTorch
    from sagemaker.sklearn import SKLearn

    SKLearn(entry_point="train.py", role="role", framework_version="1.2-1", instance_type="ml.m5.xlarge").fit()

    PyTorch(entry_point="train.py", role="role", framework_version="2.6", py_version="py312")

Good:

    from sagemaker.pytorch import PyTorchModel
    from sagemaker.transformer import Transformer

    model = PyTorchModel(
        model_data="s3://bucket/model.tar.gz", role="role", entry_point="inference.py",
        framework_version="2.3", py_version="py311",
    )
    model.deploy(1, "ml.g5.xlarge")
    Transformer(model_name="model", instance_count=1, instance_type="ml.g5.xlarge")
    # file: inference.py
    import torch

    def model_fn(model_dir):
        return torch.jit.load(model_dir + "/model.pt", map_location="cuda")

Quiet: a serverless endpoint has no instance, and the content of **options is unknown

    from sagemaker.pytorch import PyTorchModel
    from sagemaker.serverless import ServerlessInferenceConfig
    from settings import options

    model = PyTorchModel(model_data="s3://bucket/model.tar.gz", role="role", entry_point="inference.py")
    model.deploy(serverless_inference_config=ServerlessInferenceConfig())
    model.deploy(initial_instance_count=1, **options)
"""

import ast

from gpuproof.findings import Severity
from gpuproof.linter.analysis.call import Call, all_calls, calls_named, origin_call
from gpuproof.linter.analysis.module import Module
from gpuproof.linter.project import Project
from gpuproof.linter.rule import Hits, Rule
from gpuproof.linter.sdk import Signature, v1_parameter, v2, v2_needs
from gpuproof.linter.sdk.calls import given_parameters, sdk_class, sdk_major, sdk_path, sdk_signature

rule = Rule("SDK104", "missing-required-argument", Severity.ERROR, needs=("sagemaker",))

_HAVE_INSTANCES = frozenset({"SKLearn", "LDA", "JumpStartEstimator"})
"""Estimators with an instance count of their own. Source: sagemaker 2.257.7, sklearn/estimator.py, amazon/lda.py,
jumpstart/factory/estimator.py; `training_recipe` of the PyTorch estimator has them, too."""


@rule.module
def check(module: Module, project: Project) -> Hits:
    if not module.imports("sagemaker"):
        return
    major = sdk_major(module, project)
    for call in all_calls(module):
        path = sdk_path(call)
        signature = sdk_signature(path, major) if path else None
        if path is None or signature is None or call.is_open:
            continue
        missing = _missing(call, path, signature)
        if missing:
            yield rule.hit(
                call.span,
                f"`{call.method}` requires {' and '.join(f'`{name}`' for name in missing)}: "
                f"{'the call raises TypeError' if missing[0] in signature.required else 'the SDK raises ValueError'}.",
                remedy=f"Pass {', '.join(f'{name}=...' for name in missing)}.",
                evidence=(signature.path,),
            )
    if major in (None, 2):
        yield from _fits(module)


def _fits(module: Module) -> Hits:
    """Calls of `fit` of estimators that have no instances."""
    set_later = {node.attr for node in module.nodes(ast.Attribute) if isinstance(node.ctx, ast.Store)}
    for call in calls_named(module, "fit"):
        made = origin_call(module, call.receiver)
        path = sdk_class(made) if made is not None else None
        signature = v2().signature(path) if path else None
        if made is None or path is None or signature is None or made.is_open:
            continue
        if not v2().is_subclass(path, "sagemaker.estimator.EstimatorBase") or made.method in _HAVE_INSTANCES:
            continue
        missing = [
            name
            for name in ("instance_count", "instance_type")
            if name not in set_later
            and not _has(made, signature, (name, f"train_{name}", "instance_groups", "training_recipe"))
        ]
        if missing and "instance_groups" not in set_later:
            yield rule.hit(
                made.span,
                f"`{made.method}` has no {' and no '.join(f'`{name}`' for name in missing)}: `fit` raises ValueError.",
                remedy=f"Pass {', '.join(f'{name}=...' for name in missing)}.",
                evidence=(signature.path,),
            )


def _missing(call: Call, path: str, signature: Signature) -> list[str]:
    written = given_parameters(call, signature)
    renamed = {change.new for word in written if (change := v1_parameter(path, word))}
    missing = [name for name in signature.required if name not in written | renamed]
    for need in v2_needs(path):
        if any("version" in name for name in need.needs) or _has(
            call, signature, (*need.needs, *need.unless)
        ):
            continue
        missing += [name for name in need.needs if name not in missing][:1]
    return missing


def _has(call: Call, signature: Signature, names: tuple[str, ...]) -> bool:
    """Whether one of these arguments is passed and not None."""
    positions = {name: position for position, name in enumerate(signature.positional)}
    for name in names:
        value = call.argument(name, positions.get(name))
        if not value.is_unset:
            return True
    return False
