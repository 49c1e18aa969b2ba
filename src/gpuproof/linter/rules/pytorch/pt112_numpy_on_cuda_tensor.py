"""NumPy cannot access GPU memory: `.numpy()` on a GPU tensor raises a TypeError.

"can't convert cuda:0 device type tensor to numpy. Use Tensor.cpu() to copy the tensor to host memory first." The line
works on a CPU, so the error first occurs on a GPU instance. The rule reports calls for which the file shows the move
to the GPU.

Bad:

    import torch

    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model = torch.nn.Linear(4, 2).to(device)
    with torch.no_grad():
        scores = model(torch.ones(1, 4).to(device)).numpy()  # <-

Fixed:

    import torch

    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model = torch.nn.Linear(4, 2).to(device)
    with torch.no_grad():
        scores = model(torch.ones(1, 4).to(device)).detach().cpu().numpy()

Bad: both results of topk

    import torch

    model = torch.nn.Linear(4, 2).cuda()
    values, places = model(torch.ones(1, 4).cuda()).topk(2)
    print(places[0].numpy())  # <-

Bad: a method of another file returns what the model computes

    # file: scorer.py
    import torch

    class Scorer:
        def __init__(self):
            self.model = torch.nn.Linear(4, 2)
            self.model.to("cuda")

        def run(self, x):
            scores = self.model(x.to("cuda"))
            return scores.softmax(1)
    # file: main.py
    import torch
    from scorer import Scorer

    with torch.inference_mode():
        print(Scorer().run(torch.ones(1, 4)).numpy())  # <-

Good:

    import torch

    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model = torch.nn.Linear(4, 2).to(device)
    with torch.no_grad():
        scores = model(torch.ones(1, 4).to(device)).cpu().numpy()

Quiet: a batch before it is moved

    import torch
    from torch.utils.data import DataLoader

    for x, y in DataLoader([]):
        labels = y.numpy()
        x = x.to("cuda")

Quiet: a file in which everything is on the CPU

    import torch

    model = torch.nn.Linear(4, 2).to("cpu")
    scores = model(torch.ones(1, 4)).detach().numpy()
"""

import ast

from gpuproof.findings import Severity
from gpuproof.linter.analysis.call import calls_named, origin_call
from gpuproof.linter.analysis.local_imports import program_modules
from gpuproof.linter.analysis.module import Module
from gpuproof.linter.analysis.types import TypeKind, type_of
from gpuproof.linter.analysis.usage import moves_name
from gpuproof.linter.fixing.edits import wrap
from gpuproof.linter.knowledge.frameworks.torch import (
    is_test,
    moved_names,
    moves_to_gpu,
    program_may_use_cuda,
    runs_without_gpu,
)
from gpuproof.linter.project import Project
from gpuproof.linter.rule import Hits, Rule
from gpuproof.linter.source.edit import Fix

rule = Rule("PT112", "numpy-on-cuda-tensor", Severity.ERROR, needs=(".numpy()",))

_KEEPS = frozenset(
    {
        "detach",
        "squeeze",
        "unsqueeze",
        "view",
        "reshape",
        "float",
        "argmax",
        "softmax",
        "sum",
        "mean",
        "flatten",
        "permute",
        "transpose",
        "contiguous",
        "clone",
        "sigmoid",
        "exp",
        "round",
        "half",
        "double",
        "t",
    }
)
_PAIRS = frozenset({"topk", "max", "min", "sort", "median", "kthvalue"})
"""Methods that return two tensors."""
_FUNCTIONS = (
    "torch.argmax",
    "torch.softmax",
    "torch.sigmoid",
    "torch.nn.functional.",
    "torch.squeeze",
    "torch.exp",
)


@rule.module
def check(module: Module, project: Project) -> Hits:
    if not module.imports("torch", "numpy") or not program_may_use_cuda(module):
        return
    if runs_without_gpu(module, project) or is_test(module):
        return
    for call in calls_named(module, "numpy"):
        if (
            call.receiver is None
            or call.node.args
            or call.keywords
            or not (_on_gpu(module, call.receiver, 0) or _is_on_gpu_elsewhere(module, call.receiver))
        ):
            continue
        detached = ".detach()" in module.text(call.receiver)[-12:]
        text = ".cpu()" if detached else ".detach().cpu()"
        yield rule.hit(
            call.span,
            f"`{module.text(call.node)}`: the tensor is on the GPU, where NumPy cannot read it (TypeError).",
            remedy=f"Write {text}.numpy().",
            fix=Fix(f"Insert {text}", wrap(module, call.receiver, "", text)[1:], safe=True),
        )


def _is_on_gpu_elsewhere(module: Module, node: ast.expr) -> bool:
    """Whether the program shows that a tensor is on a GPU: what a model returns, what a function of another file moves."""
    found = type_of(module, node)
    return (
        found.kind is TypeKind.TENSOR
        and found.device == "gpu"
        and any(
            moves_to_gpu(move)
            for other in program_modules(module)
            for move in calls_named(other, "to", "cuda")
        )
    )


def _on_gpu(module: Module, node: ast.expr | None, depth: int) -> bool:
    """Whether an expression is certainly a tensor on a GPU, if there is one."""
    if depth > 8 or node is None:
        return False
    if isinstance(node, ast.Subscript):
        return _on_gpu(module, node.value, depth + 1)
    if isinstance(node, ast.Name):
        bindings = module.reaching(node)
        if len(bindings) != 1 or bindings[0].value is None:
            return False
        made = bindings[0].value
        if bindings[0].kind == "unpack":
            # `values, places = scores.topk(5)`: both are where the scores are.
            match made:
                case ast.Call(func=ast.Attribute(value=scores, attr=method)) if method in _PAIRS:
                    return _on_gpu(module, scores, depth + 1)
                case _:
                    return False
        if bindings[0].kind != "assign":
            return False
        return _on_gpu(module, bindings[0].value, depth + 1)
    call = origin_call(module, node) if isinstance(node, ast.Call) else None
    if call is None:
        return False
    if call.method in ("to", "cuda") and call.receiver is not None:
        # Of what can be moved, only a tensor has the methods that follow.
        return moves_to_gpu(call) and type_of(module, call.receiver).kind is not TypeKind.MODULE
    if call.name is not None and call.name.startswith(_FUNCTIONS):
        return bool(call.node.args) and _on_gpu(module, call.node.args[0], depth + 1)
    if call.method in _KEEPS and call.receiver is not None:
        return _on_gpu(module, call.receiver, depth + 1)
    return _is_moved_model(module, call.node.func)


def _is_moved_model(module: Module, function: ast.expr) -> bool:
    if not isinstance(function, ast.Name) or function.id in module.functions:
        return False
    if moves_name(module, function, calls_named(module, "cpu")):
        return False
    tagged = type_of(module, function)
    if tagged.kind is TypeKind.MODULE:
        # `.to(device)` with a device that is "cpu" does not move it.
        moves = [call for call in calls_named(module, "to", "cuda") if call.receiver is not None]
        return tagged.device == "gpu" and any(moves_to_gpu(move) for move in moves)
    # A model that a serving toolkit passes in, moved by the function that uses it.
    around = module.function_of(function)
    return (
        around is not None and function.id in ("model", "net") and function.id in moved_names(module, around)
    )
