"""The input is converted to half precision but the model is not: the first layer rejects the mixed types.

"Input type (torch.cuda.HalfTensor) and weight type (torch.cuda.FloatTensor) should be the same", or "mat1 and mat2
must have the same dtype". Convert both or, for training, neither and run the step under autocast.

Bad:

    import torch

    model = torch.nn.Linear(4, 2).cuda()
    x = torch.ones(1, 4).cuda()
    model(x.half())  # <-

Bad: the input of a handler

    import torch

    def model_fn(model_dir):
        model = torch.nn.Linear(4, 2)
        model.load_state_dict(torch.load(f"{model_dir}/model.pt", map_location="cpu"))
        return model.eval()

    def predict_fn(data, model):
        with torch.inference_mode():
            return model(data.half())  # <-

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
import re

from gpuproof.findings import Severity
from gpuproof.linter.analysis.call import Call, all_calls, calls_named
from gpuproof.linter.analysis.evaluation.evaluate import evaluate
from gpuproof.linter.analysis.module import Module
from gpuproof.linter.analysis.syntax_index import argument_node
from gpuproof.linter.analysis.types import TypeKind, type_of
from gpuproof.linter.analysis.usage import code_around, find_uses, moves_name, uses
from gpuproof.linter.knowledge.frameworks.torch import is_test
from gpuproof.linter.project import Project
from gpuproof.linter.rule import Hits, Rule

rule = Rule("PF117", "half-input-float-model", Severity.ERROR, needs=(".half()",))

_MAY_HALVE = re.compile(
    r"(^|\.)(autocast|set_default_dtype|set_default_tensor_type)$|^torch\.(float16|bfloat16|half|amp|cuda\.amp|jit\.load)\b|^apex\."
)
_HALF = re.compile(r"(^|\.)half$")
_DTYPE = re.compile(r"^(torch_dtype|fp16|bf16)$")


@rule.module
def check(module: Module, _: Project) -> Hits:
    if not module.imports("torch") or is_test(module):
        return
    halves = [candidate for candidate in calls_named(module, "half") if candidate.receiver is not None]
    tensors = [
        candidate for candidate in halves if type_of(module, candidate.receiver).kind is not TypeKind.MODULE
    ]
    for call in all_calls(module):
        if (
            not isinstance(call.node.func, ast.Name)
            or type_of(module, call.node.func).kind is not TypeKind.MODULE
        ):
            continue
        given = [module.origin(argument) for argument in call.node.args]
        half = [tensor for tensor in tensors if tensor.node in given]
        if half and not _may_be_half(module, call):
            yield rule.hit(
                call.span,
                f"`{module.text(half[0].node)}` is float16 and `{call.node.func.id}` is float32: the types do not match.",
                remedy=f"Convert both ({call.node.func.id}.half()), or neither and run under torch.autocast.",
            )


def _may_be_half(module: Module, call: Call) -> bool:
    """Whether the model may be float16, or run under autocast: by its creation, or by the function that runs it."""
    model = module.origin(call.node.func)
    if model is not None and uses(module, _HALF, "call", within=model):
        return True
    if isinstance(call.node.func, ast.Name) and moves_name(
        module, call.node.func, calls_named(module, "half")
    ):
        return True
    around: list[ast.AST] = code_around(module, call.node)
    around += [model] if model is not None else []
    halves = [use for use in find_uses(module, "call", "name", within=around) if _MAY_HALVE.search(use.text)]
    types = [use for use in find_uses(module, "keyword", within=around) if _DTYPE.search(use.text)]
    return not all(_is_disabled(module, use.node) for use in halves) or not all(
        isinstance(use.node, ast.keyword) and _is_full(module, use.node.value) for use in types
    )


def _is_disabled(module: Module, node: ast.AST) -> bool:
    """Whether it is `autocast(enabled=False)`."""
    call = node if isinstance(node, ast.Call) else module.parent(node)
    if not isinstance(call, ast.Call) or (node is not call and call.func is not node):
        return False
    return evaluate(module, argument_node(call, "enabled")).flag is False


def _is_full(module: Module, node: ast.expr) -> bool:
    """Whether a value is `False`, `None` or float32."""
    value = evaluate(module, node)
    return module.qualified(node) in ("torch.float32", "torch.float") or (
        value.is_known and (not value.value or value.text in ("float32", "auto"))
    )
