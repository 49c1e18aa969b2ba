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

import re

from gpuproof.findings import Severity
from gpuproof.linter.analysis.module import Module
from gpuproof.linter.analysis.usage import uses
from gpuproof.linter.jobs.definition import JobDefinition
from gpuproof.linter.knowledge.contract.inference_handlers import PARAMETERS, defines_name
from gpuproof.linter.project import Project
from gpuproof.linter.rule import Hits, Rule
from gpuproof.linter.source.span import Span

_SCRIPTS = re.compile(r"^torch\.jit\.|(^|\.)to_torchscript$")
_SCRIPTED = re.compile(r"torchscript", re.IGNORECASE)

rule = Rule("SM110", "missing-model-fn", Severity.ERROR, when="link")


@rule.module
def check(module: Module, project: Project) -> Hits:
    for job in project.jobs_running(module):
        if not _needs_model_fn(job) or job.script is not module or job.module is module:
            continue
        if defines_name(module, "model_fn") or uses(module, _SCRIPTS, "call", "name"):
            return
        if job.module is not None and (
            uses(job.module, _SCRIPTS, "call", "name") or uses(job.module, _SCRIPTED, "string")
        ):
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


def _anchor(module: Module) -> Span:
    """The first of the handler's other functions, or else the start of the file."""
    own = [module.functions[name] for name in PARAMETERS if name in module.functions]
    if not own:
        return module.unit.span(1)
    span = module.span(min(own, key=lambda item: item.lineno))
    return Span(span.unit, span.line, span.column, span.line, len(module.unit.lines[span.line - 1]) + 1)
