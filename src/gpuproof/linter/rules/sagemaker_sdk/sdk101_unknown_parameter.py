"""The SDK does not have this parameter: models and processors raise a TypeError, estimators ignore it silently.

Estimators of sagemaker v2 accept `**kwargs` and pass them to a base class that ignores unknown ones: `env=` never
reaches the container, and `job_name=` has no effect. Models, processors and transformers raise an error, after the
training has been paid for. The parameters of each class, base classes included, were read from the SDK package.

Bad:

    from sagemaker.pytorch import PyTorchModel

    model = PyTorchModel(
        model_data="s3://bucket/model.tar.gz", role="role", entry_point="inference.py",
        framework_version="2.3", py_version="py311",
        instance_type="ml.g4dn.xlarge",  # <-
    )

Bad:

    from sagemaker.tensorflow import TensorFlow

    TensorFlow(entry_point="train.py", role="role", env={"A": "1"})  # <-

Fixed:

    from sagemaker.tensorflow import TensorFlow

    TensorFlow(entry_point="train.py", role="role", environment={"A": "1"})

Bad: a method of an SDK object

    from sagemaker.pytorch import PyTorchModel
    from sagemaker.predictor import Predictor

    model = PyTorchModel(model_data="s3://bucket/model.tar.gz", role="role", entry_point="inference.py")
    model.deploy(initial_instance_count=1, instance_type="ml.g5.xlarge", predictor_cls=Predictor)  # <-

Good:

    from sagemaker.pytorch import PyTorchModel
    from sagemaker.predictor import Predictor

    model = PyTorchModel(
        model_data="s3://bucket/model.tar.gz", role="role", entry_point="inference.py", predictor_cls=Predictor,
        framework_version="2.3", py_version="py311",
    )
    model.deploy(initial_instance_count=1, instance_type="ml.g5.xlarge")
    # file: inference.py
    import torch

    def model_fn(model_dir):
        return torch.jit.load(model_dir + "/model.pt", map_location="cuda")

Quiet: an estimator's deploy passes unknown arguments to the model, which has predictor_cls

    from sagemaker.pytorch import PyTorch
    from sagemaker.predictor import Predictor

    estimator = PyTorch(entry_point="train.py", role="role", instance_count=1, instance_type="ml.g5.xlarge")
    estimator.deploy(initial_instance_count=1, instance_type="ml.g5.xlarge", predictor_cls=Predictor)

Quiet: custom classes, and set_hyperparameters, accept any parameter

    from sagemaker.estimator import Estimator
    from sagemaker.pytorch import PyTorch

    class Mine(PyTorch):
        def __init__(self, team, **rest):
            super().__init__(**rest)

    Mine(team="vision", entry_point="train.py")
    Estimator(image_uri="image", role="role").set_hyperparameters(max_depth=5, anything="goes")
"""

import difflib

from gpuproof.findings import Severity
from gpuproof.linter.analysis.call import Call, all_calls
from gpuproof.linter.analysis.module import Module
from gpuproof.linter.fixing.edits import remove_keyword
from gpuproof.linter.project import Project
from gpuproof.linter.rule import Hits, Rule
from gpuproof.linter.sdk import Signature, v1_parameter, v2
from gpuproof.linter.sdk.calls import keyword_span, rename_keyword, sdk_major, sdk_path, sdk_signature
from gpuproof.linter.source.edit import Fix

rule = Rule("SDK101", "unknown-parameter", Severity.ERROR, needs=("sagemaker",))

_MEANT = {
    "env": "environment",
    "environment": "env",
    "job_name": "base_job_name",
    "metrics_definition": "metric_definitions",
    "metrics_definitions": "metric_definitions",
    "metric_definition": "metric_definitions",
}
"""Common wrong names and the SDK's names for the same parameter."""


@rule.module
def check(module: Module, project: Project) -> Hits:
    if not module.imports("sagemaker"):
        return
    major = sdk_major(module, project)
    if major in (1, 3):
        return
    for call in all_calls(module):
        path = sdk_path(call)
        if path is None or v2().has(path) is not True or not (signature := sdk_signature(path, 2)):
            continue
        if signature.unknown != "open":
            yield from _unknown(call, path, signature)


def _unknown(call: Call, path: str, signature: Signature) -> Hits:
    for keyword in call.node.keywords:
        name = keyword.arg
        if name is None or signature.accepts(name):
            continue
        old = v1_parameter(path, name)
        if old is not None and (old.new or old.state != "gone"):
            # Reported by SDK102.
            continue
        meant = _MEANT.get(name) or next(iter(difflib.get_close_matches(name, signature.names, 1, 0.8)), "")
        fails = signature.unknown == "error"
        outcome = "the call raises TypeError" if fails else "the SDK ignores it silently"
        yield rule.hit(
            keyword_span(call, keyword),
            f"`{call.method}` has no parameter `{name}`: {outcome}.",
            remedy=_remedy(name, meant, signature),
            evidence=(f"{signature.path} of sagemaker {v2().version}",),
            severity=rule.severity if fails else Severity.WARNING,
            fix=_fix(call, name, meant, signature),
        )


def _remedy(name: str, meant: str, signature: Signature) -> str:
    if meant in signature.names:
        return f"Write {meant}=."
    if name in ("instance_type", "instance_count", "initial_instance_count") and signature.name.endswith(
        "Model"
    ):
        return f"Remove it here and pass it to deploy({'initial_' * (name == 'instance_count')}{name}=...)."
    if name == "predictor_cls":
        return "Pass predictor_cls= to the model's constructor."
    if name == "py_version":
        return "Remove it: only the version of TensorFlow Serving determines the image."
    return "Remove it, or find the name of the parameter in this version of the SDK."


def _fix(call: Call, name: str, meant: str, signature: Signature) -> Fix | None:
    if meant in signature.names:
        edit = rename_keyword(call, name, meant)
        return Fix(f"Write {meant}=", (edit,), safe=name in _MEANT) if edit else None
    edit = remove_keyword(call, name) if signature.unknown == "error" else None
    return Fix(f"Remove {name}=", (edit,)) if edit else None
