"""A convolutional network trains in mixed precision without `channels_last`: cuDNN transposes each tensor for tensor cores.

Tensor cores compute convolutions in the layout NHWC. With `memory_format=torch.channels_last` for the model and the images, the
transposition is left out; gains of 10 to 30 % are usual for networks such as ResNet. Source: PyTorch's performance tuning guide.

Bad:

    import torch
    import torchvision

    model = torchvision.models.resnet50().cuda()  # <-
    for x, y in loader:
        with torch.autocast("cuda"):
            loss = criterion(model(x.cuda()), y.cuda())
        loss.backward()

Good:

    import torch
    import torchvision

    model = torchvision.models.resnet50().cuda().to(memory_format=torch.channels_last)
    for x, y in loader:
        with torch.autocast("cuda"):
            loss = criterion(model(x.cuda().to(memory_format=torch.channels_last)), y.cuda())
        loss.backward()

Quiet: without mixed precision

    import torch
    import torchvision

    model = torchvision.models.resnet50().cuda()
    for x, y in loader:
        criterion(model(x.cuda()), y.cuda()).backward()
"""

import re

from gpuproof.findings import Severity
from gpuproof.linter.analysis.call import calls_named, calls_to
from gpuproof.linter.analysis.module import Module
from gpuproof.linter.analysis.usage import uses
from gpuproof.linter.project import Project
from gpuproof.linter.rule import Hits, Rule

rule = Rule("PF108", "no-channels-last", Severity.NOTE, when="strict", needs=("autocast",))

_LAYOUT = re.compile(r"(^|\.)(channels_last|memory_format)$")
_TRANSFORMERS = re.compile(r"\.(vit|swin|maxvit)_")


@rule.module
def check(module: Module, _: Project) -> Hits:
    if not calls_named(module, "autocast") or not calls_named(module, "backward"):
        return
    if uses(module, _LAYOUT, "name", "attribute", "keyword"):
        return
    for call in calls_to(module, "torchvision.models.*"):
        if call.method[:1].islower() and not _TRANSFORMERS.search(str(call.name)):
            yield rule.hit(
                call.span,
                f"`{call.method}` trains in mixed precision in the layout NCHW: tensor cores compute in NHWC.",
                remedy="Add .to(memory_format=torch.channels_last) to the model and the images.",
            )
