"""The endpoint's script has no `model_fn`, so the container cannot load the model.

The scikit-learn container always requires one. The PyTorch container's default only loads a TorchScript file,
`model.pt`: for a state dict or a pickled module the endpoint fails at startup. `estimator.deploy()` serves with the
training script unless it gets another `entry_point`, so that script needs the function too.

Bad:

    # file: launch.py
    from sagemaker.pytorch import PyTorchModel

    model = PyTorchModel(
        model_data="s3://b/model.tar.gz", role="role", entry_point="inference.py", framework_version="2.3"
    )
    model.deploy(initial_instance_count=1, instance_type="ml.g5.xlarge")
    # file: inference.py
    import torch

    def predict_fn(data, model):  # <-
        with torch.no_grad():
            return model(data)

Good:

    # file: launch.py
    from sagemaker.pytorch import PyTorchModel

    model = PyTorchModel(
        model_data="s3://b/model.tar.gz", role="role", entry_point="inference.py",
        framework_version="2.3", py_version="py311",
    )
    model.deploy(initial_instance_count=1, instance_type="ml.g5.xlarge")
    # file: inference.py
    import torch

    def model_fn(model_dir):
        return torch.load(model_dir + "/model.pth", map_location="cuda", weights_only=False)

Quiet: TorchScript does not need it

    # file: launch.py
    from sagemaker.pytorch import PyTorch

    estimator = PyTorch(entry_point="train.py", instance_count=1, instance_type="ml.g5.xlarge")
    estimator.fit()
    estimator.deploy(initial_instance_count=1, instance_type="ml.g5.xlarge")
    # file: train.py
    import torch

    torch.jit.script(torch.nn.Linear(1, 1)).save("/opt/ml/model/model.pt")

Quiet: create_model() gets another entry point

    # file: launch.py
    from sagemaker.pytorch import PyTorch

    estimator = PyTorch(entry_point="train.py", instance_count=1, instance_type="ml.g5.xlarge")
    estimator.fit()
    model = estimator.create_model(entry_point="inference.py")
    model.deploy(initial_instance_count=1, instance_type="ml.g5.xlarge")
    # file: train.py
    import torch
    # file: inference.py
    import torch

    def model_fn(model_dir):
        return torch.load(model_dir + "/model.pth", map_location="cpu", weights_only=False)

Quiet: it comes from another module

    # file: launch.py
    from sagemaker.sklearn import SKLearnModel

    model = SKLearnModel(model_data="s3://b/model.tar.gz", role="role", entry_point="inference.py")
    model.deploy(initial_instance_count=1, instance_type="ml.m5.xlarge")
    # file: inference.py
    from handlers import model_fn
"""

import ast
import re

from gpuproof.findings import Severity
from gpuproof.linter.analysis.call import all_calls, origin_call
from gpuproof.linter.analysis.local_imports import local_modules
from gpuproof.linter.analysis.module import Module
from gpuproof.linter.analysis.usage import reached, uses
from gpuproof.linter.jobs.definition import JobDefinition
from gpuproof.linter.knowledge.contract.inference_handlers import PARAMETERS, defines_name
from gpuproof.linter.knowledge.contract.model_exports import handles_torchscript
from gpuproof.linter.project import Project
from gpuproof.linter.rule import Hits, Rule
from gpuproof.linter.source.span import Span

_SCRIPTED = re.compile(r"torchscript", re.IGNORECASE)
_PRODUCES = re.compile(r"^(subprocess\.|os\.(system|popen))|(^|\.)(upload\w*|put_object|copy\w*)$")
"""Calls that may create or upload the file that they name."""

rule = Rule("SM110", "missing-model-fn", Severity.ERROR, when="link")


@rule.module
def check(module: Module, project: Project) -> Hits:
    for job in project.jobs_running(module):
        if not _needs_model_fn(job) or job.script is not module or job.module is module:
            continue
        if defines_name(module, "model_fn") or any(map(handles_torchscript, local_modules(module))):
            return
        if _serves_torchscript(job, project):
            continue
        yield rule.hit(
            _anchor(module),
            f"`{module.title}` has no model_fn, but {job.title} serves with it: "
            + (
                "the scikit-learn container has no default."
                if job.framework == "sklearn"
                else "the PyTorch container's default only loads TorchScript files."
            ),
            remedy="Add def model_fn(model_dir):, which loads the model from model_dir and returns it.",
        )
        return


def _needs_model_fn(job: JobDefinition) -> bool:
    own_image = not job.image.is_unset
    return job.kind in ("endpoint", "transform") and job.framework in ("pytorch", "sklearn") and not own_image


def _serves_torchscript(job: JobDefinition, project: Project) -> bool:
    """Whether the launcher or the training script writes TorchScript, or the address of the artifact says so."""
    launcher, model = job.module, job.model
    if launcher is None:
        return False
    produced = [call.node for call in all_calls(launcher) if _PRODUCES.search(call.name or call.method)]
    if handles_torchscript(launcher) or uses(launcher, _SCRIPTED, "string", within=produced):
        return True
    if model is None or model.call is None:
        return uses(launcher, _SCRIPTED, "string")
    data = launcher.origin(model.call.expression("model_data", 0))
    if data is None:
        return False
    trained = origin_call(launcher, data.value) if isinstance(data, ast.Attribute) else None
    if trained is None:
        return uses(launcher, _SCRIPTED, "string", within=reached(launcher, data))
    return any(
        handles_torchscript(local)
        for other in project.jobs
        if other.call is not None and other.call.node is trained.node and other.script is not None
        for local in local_modules(other.script)
    )


def _anchor(module: Module) -> Span:
    """The first of the handler's other functions, or else the start of the file."""
    own = [module.functions[name] for name in PARAMETERS if name in module.functions]
    if not own:
        return module.unit.span(1)
    span = module.span(min(own, key=lambda item: item.lineno))
    return Span(span.unit, span.line, span.column, span.line, len(module.unit.lines[span.line - 1]) + 1)
