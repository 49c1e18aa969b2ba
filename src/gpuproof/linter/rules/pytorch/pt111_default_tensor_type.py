"""`torch.set_default_tensor_type` is deprecated since PyTorch 2.1: `set_default_device` and `set_default_dtype` replace it.

With `torch.cuda.FloatTensor` it creates every tensor on the GPU, but generators, samplers and shuffling loaders still expect
CPU tensors and fail with `Expected a 'cuda' device type for generator but found 'cpu'`.

Bad:

    # file: requirements.txt
    torch==2.4.1
    # file: train.py
    import torch

    torch.set_default_tensor_type("torch.cuda.FloatTensor")  # <-

Bad:

    # file: requirements.txt
    torch>=2.2
    # file: train.py
    import torch

    torch.set_default_tensor_type(torch.DoubleTensor)  # <-

Good:

    # file: requirements.txt
    torch==2.4.1
    # file: train.py
    import torch

    torch.set_default_device("cuda")

Quiet: an older PyTorch

    # file: requirements.txt
    torch==1.13.1
    # file: train.py
    import torch

    torch.set_default_tensor_type("torch.cuda.FloatTensor")
"""

from gpuproof.findings import Severity
from gpuproof.linter.analysis.call import calls_to
from gpuproof.linter.analysis.module import Module
from gpuproof.linter.knowledge.frameworks.framework_version import framework_is_at_least
from gpuproof.linter.project import Project
from gpuproof.linter.rule import Hits, Rule

rule = Rule("PT111", "default-tensor-type", Severity.NOTE, needs=("set_default_tensor_type",))


@rule.module
def check(module: Module, project: Project) -> Hits:
    calls = calls_to(module, "torch.set_default_tensor_type")
    if not calls or framework_is_at_least(module, project, "pytorch", "2.1") != "yes":
        return
    for call in calls:
        given = call.expression("t", 0)
        text = str(call.argument("t", 0).text or (module.text(given) if given is not None else ""))
        new = 'torch.set_default_device("cuda")' if "cuda" in text else "torch.set_default_dtype(...)"
        yield rule.hit(
            call.span,
            "`torch.set_default_tensor_type` is deprecated since PyTorch 2.1.",
            remedy=f"Use {new}.",
        )
