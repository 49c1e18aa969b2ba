"""The endpoint has a GPU, but its handler moves nothing to it: every request runs on the CPU.

`from_pretrained` and `torch.load(map_location="cpu")` return a model in host memory, and `load_state_dict` copies weights
to where the model is: `map_location` alone does not move it. SageMaker's own `predict_fn` moves model and data to the
GPU, but a script with its own `predict_fn` or `transform_fn` replaces it. The rule requires a linked endpoint, and does
not report libraries that select a device themselves.

Bad:

    # file: deploy.py
    from sagemaker.huggingface import HuggingFaceModel

    model = HuggingFaceModel(role="r", entry_point="inference.py", transformers_version="4.26", pytorch_version="1.13")
    predictor = model.deploy(initial_instance_count=1, instance_type="ml.g4dn.xlarge")
    # file: inference.py
    import torch
    from transformers import AutoModel

    def model_fn(model_dir):
        return AutoModel.from_pretrained(model_dir)

    def predict_fn(data, model):  # <-
        with torch.inference_mode():
            return model(**data)

Bad: weights are loaded onto the GPU, and copied into a model on the CPU

    # file: deploy.py
    from sagemaker.pytorch import PyTorchModel

    model = PyTorchModel(role="r", entry_point="inference.py", model_data="s3://b/model.tar.gz", framework_version="2.3")
    predictor = model.deploy(initial_instance_count=1, instance_type="ml.g4dn.xlarge")
    # file: inference.py
    import torch

    def model_fn(model_dir):
        device = torch.device("cuda")
        model = torch.nn.Linear(8, 1)
        model.load_state_dict(torch.load(model_dir + "/model.pth", map_location=device))
        return model.eval()

    def predict_fn(data, model):  # <-
        with torch.inference_mode():
            return model(data.to(next(model.parameters()).device))

Good:

    # file: deploy.py
    from sagemaker.huggingface import HuggingFaceModel

    model = HuggingFaceModel(
        role="r", entry_point="inference.py", transformers_version="4.26", pytorch_version="1.13", py_version="py39"
    )
    predictor = model.deploy(initial_instance_count=1, instance_type="ml.g4dn.xlarge")
    # file: inference.py
    import torch
    from transformers import AutoModel

    def model_fn(model_dir):
        return AutoModel.from_pretrained(model_dir).to("cuda")

    def predict_fn(data, model):
        with torch.inference_mode():
            return model(**data.to("cuda"))

Quiet: the toolkit's own predict_fn moves the model

    # file: deploy.py
    from sagemaker.pytorch import PyTorchModel

    model = PyTorchModel(role="r", entry_point="inference.py", model_data="s3://b/model.tar.gz", framework_version="2.3")
    predictor = model.deploy(initial_instance_count=1, instance_type="ml.g4dn.xlarge")
    # file: inference.py
    import torch

    def model_fn(model_dir):
        return torch.jit.load(model_dir + "/model.pt")

Quiet: an endpoint without a GPU

    # file: deploy.py
    from sagemaker.pytorch import PyTorchModel

    model = PyTorchModel(role="r", entry_point="inference.py", model_data="s3://b/model.tar.gz", framework_version="2.3")
    predictor = model.deploy(initial_instance_count=1, instance_type="ml.m5.xlarge")
    # file: inference.py
    import torch

    def model_fn(model_dir):
        return torch.jit.load(model_dir + "/model.pt")

    def predict_fn(data, model):
        return model(data)
"""

import re

from gpuproof.findings import Severity
from gpuproof.linter.analysis.call import all_calls
from gpuproof.linter.analysis.local_imports import unseen_imports
from gpuproof.linter.analysis.module import Module
from gpuproof.linter.analysis.usage import find_uses
from gpuproof.linter.knowledge.aws.instances import gpus_per_host, hourly_price, hourly_text, no_price
from gpuproof.linter.knowledge.contract.inference_handlers import is_handler
from gpuproof.linter.knowledge.devices.device_use import may_use_device
from gpuproof.linter.project import Project
from gpuproof.linter.rule import Hits, Rule, lowered

rule = Rule("PT115", "inference-never-uses-gpu", Severity.ERROR, needs=("predict_fn", "transform_fn"))

_STAYS_PUT = frozenset(
    {
        "transformers",
        "sagemaker_inference",
        "sagemaker_huggingface_inference_toolkit",
        "sagemaker",
        "evaluate",
    }
)
"""Libraries that leave a model in host memory by default."""
_CHOOSES = re.compile(
    r"(^|\.)(pipeline|SentenceTransformer|CrossEncoder|Trainer|ORTModel\w*|InferenceSession)$|^(onnx\w*|optimum)\."
)
"""Functions and classes that choose a device themselves."""


@rule.module
def check(module: Module, project: Project) -> Hits:
    if (
        not module.imports("torch", "transformers")
        or module.imports("tensorflow", "keras")
        or not is_handler(module)
    ):
        return
    own = module.functions.get("predict_fn") or module.functions.get("transform_fn")
    if own is None or _chooses(module) or may_use_device(module):
        return
    if set(unseen_imports(module)) - _STAYS_PUT:
        return
    jobs = [
        candidate
        for candidate in project.jobs_running(module)
        if candidate.kind in ("endpoint", "transform") and gpus_per_host(project, candidate)
    ]
    if not jobs:
        return
    job = max(jobs, key=lambda candidate: gpus_per_host(project, candidate) or 0)
    gpus, name = gpus_per_host(project, job), str(job.instance_type.text)
    price = hourly_price(project, name, "endpoint")
    cost = f" at {hourly_text(price)}" if price else no_price(project)
    idle = f"the GPU of `{name}` stays idle" if gpus == 1 else f"all {gpus} GPUs of `{name}` stay idle"
    yield rule.hit(
        module.span(own),
        f"`model_fn` and `{own.name}` move nothing to a GPU: {idle}{cost} ({job.title}).",
        remedy='Use device = torch.device("cuda" if torch.cuda.is_available() else "cpu"), return model.to(device) from '
        f"model_fn, and move the input in {own.name}.",
        severity=rule.severity if job.instance_type.is_known else lowered(rule.severity),
    )


def _chooses(module: Module) -> bool:
    """Whether something may choose the GPU itself: not with `device="cpu"`, `device=-1` or only the CPU as provider."""
    called = {call.node.func for call in all_calls(module)}
    for use in find_uses(module, "name"):
        if _CHOOSES.search(use.text) and use.node not in called:
            return True
    for call in all_calls(module):
        if not _CHOOSES.search(call.name or call.method):
            continue
        device, providers = call.argument("device"), call.argument("providers")
        on_cpu = device.is_known and device.value in ("cpu", -1)
        names = [item.text for item in providers.items] if providers.items is not None else [None]
        if not on_cpu and names != ["CPUExecutionProvider"]:
            return True
    return False
