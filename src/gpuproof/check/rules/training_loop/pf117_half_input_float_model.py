"""The input is converted to half precision but the model is not: the first layer rejects the mixed types.

"Input type (torch.cuda.HalfTensor) and weight type (torch.cuda.FloatTensor) should be the same", or "mat1 and mat2
must have the same dtype". Convert both or, for training, neither and run the step under autocast.

Bad:

    import torch

    model = torch.nn.Linear(4, 2).cuda()
    x = torch.ones(1, 4).cuda()
    model(x.half())  # <-

Good:

    import torch

    model = torch.nn.Linear(4, 2).cuda().half()
    x = torch.ones(1, 4).cuda()
    model(x.half())

Quiet: autocast converts both

    import torch

    model = torch.nn.Linear(4, 2).cuda()
    x = torch.ones(1, 4).cuda()
    with torch.autocast("cuda"):
        model(x.half())

Quiet: the model may be converted elsewhere

    import torch
    from models import build

    model = build()
    model(torch.ones(1, 4).half())
"""

import ast

from gpuproof.check.analysis.call import all_calls, calls_named
from gpuproof.check.analysis.module import Module
from gpuproof.check.analysis.types import TypeKind, type_of
from gpuproof.check.knowledge.torch import is_test
from gpuproof.check.project import Project
from gpuproof.check.rule import Hits, Rule
from gpuproof.findings import Severity

rule = Rule("PF117", "half-input-float-model", Severity.ERROR, needs=(".half()",))

_MAY_HALVE = (
    "float16",
    "autocast",
    "amp",
    "fp16",
    "torch_dtype",
    "apex",
    "set_default_dtype",
    "bfloat16",
    "jit.load",
)


@rule.module
def check(module: Module, _: Project) -> Hits:
    if not module.imports("torch") or module.mentions(*_MAY_HALVE) or is_test(module):
        return
    halves = [one for one in calls_named(module, "half") if one.receiver is not None]
    if any(type_of(module, one.receiver).kind not in (TypeKind.TENSOR, TypeKind.BATCH) for one in halves):
        return
    for call in all_calls(module):
        if (
            not isinstance(call.node.func, ast.Name)
            or type_of(module, call.node.func).kind is not TypeKind.MODULE
        ):
            continue
        given = [module.origin(one) for one in call.node.args]
        half = [one for one in halves if one.node in given]
        if half:
            yield rule.hit(
                call.span,
                f"`{module.text(half[0].node)}` is float16 and `{call.node.func.id}` is float32: the types do not match.",
                remedy=f"Convert both ({call.node.func.id}.half()), or neither and run under torch.autocast.",
            )
