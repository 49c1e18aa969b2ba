"""`torch.cuda.is_available` without parentheses is a function, and a function is always true.

`device = "cuda" if torch.cuda.is_available else "cpu"` selects the GPU on every machine: the script fails with "Found no NVIDIA
driver" where there is none, and a guard such as `if torch.distributed.is_initialized:` guards nothing. A comparison such as
`torch.cuda.device_count > 1` is a TypeError.

Bad:

    import torch

    device = torch.device("cuda" if torch.cuda.is_available else "cpu")  # <-

Fixed:

    import torch

    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")

Bad:

    import torch
    import torch.distributed as dist

    model = torch.nn.Linear(4, 2)
    if torch.cuda.device_count > 1:  # <-
        model = torch.nn.DataParallel(model)
    if not dist.is_initialized:  # <-
        dist.init_process_group("nccl")

Bad: through a name

    import torch

    use_cuda = torch.cuda.is_available  # <-
    device = torch.device("cuda" if use_cuda else "cpu")

Bad: in TensorFlow

    import tensorflow as tf

    if not tf.test.is_gpu_available:  # <-
        raise SystemExit("no GPU")

Good:

    import torch

    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")

Quiet: passed or called as a function

    import torch

    check = torch.cuda.is_available
    print(check(), [ready() for ready in (torch.cuda.is_available, torch.backends.mps.is_available)])
"""

import ast

from gpuproof.findings import Severity
from gpuproof.linter.analysis.call import calls_named
from gpuproof.linter.analysis.module import Module
from gpuproof.linter.fixing.edits import replace_node
from gpuproof.linter.project import Project
from gpuproof.linter.rule import Hits, Rule
from gpuproof.linter.source.edit import Fix

rule = Rule(
    "PT125",
    "availability-not-called",
    Severity.ERROR,
    needs=(
        "is_available",
        "is_gpu_available",
        "is_built_with_cuda",
        "is_initialized",
        "device_count",
        "is_bf16_supported",
    ),
)

_FUNCTIONS = frozenset(
    {
        "torch.cuda.is_available",
        "torch.cuda.is_initialized",
        "torch.cuda.device_count",
        "torch.cuda.is_bf16_supported",
        "torch.backends.mps.is_available",
        "torch.backends.cudnn.is_available",
        "torch.xpu.is_available",
        "torch.distributed.is_available",
        "torch.distributed.is_initialized",
        "torch.distributed.is_nccl_available",
        "torch.distributed.is_torchelastic_launched",
        "tensorflow.test.is_gpu_available",
        "tensorflow.test.is_built_with_cuda",
    }
)

_LAST_NAMES = frozenset(function.rpartition(".")[2] for function in _FUNCTIONS)


@rule.module
def check(module: Module, _: Project) -> Hits:
    for node in module.nodes(ast.Attribute, ast.Name):
        if not isinstance(node.ctx, ast.Load) or isinstance(module.parent(node), ast.Attribute):
            continue
        name = node.attr if isinstance(node, ast.Attribute) else node.id
        if name not in _LAST_NAMES and isinstance(node, ast.Attribute):
            continue
        if isinstance(node, ast.Name) and not (module.names.imports.get(name) or "").startswith("torch."):
            continue
        if module.qualified(node) not in _FUNCTIONS or not _is_condition(module, node):
            continue
        text = module.text(node)
        what = "is a function, not a number" if name == "device_count" else "is a function: always true"
        yield rule.hit(
            module.span(node),
            f"`{text}` without parentheses {what}.",
            remedy=f"Write {text}().",
            fix=Fix("Call it", (replace_node(module, node, f"{text}()"),), safe=True),
        )


def _is_condition(module: Module, node: ast.expr) -> bool:
    """Whether a function itself is used as a truth value or a number."""
    match module.parent(node):
        case ast.If(test=test) | ast.IfExp(test=test) | ast.While(test=test) | ast.Assert(test=test):
            return test is node
        case ast.BoolOp() | ast.UnaryOp(op=ast.Not()):
            return True
        case ast.Compare(left=left, ops=ops, comparators=others):
            pair = [left, *others]
            return not any(isinstance(each, (ast.Is, ast.IsNot)) for each in ops) and not any(
                isinstance(other, ast.Constant) and other.value is None for other in pair
            )
        case ast.Assign(targets=[ast.Name(id=name)]):
            return not calls_named(module, name) and _is_tested(module, name)
        case _:
            return False


def _is_tested(module: Module, name: str) -> bool:
    """Whether all uses of a name are conditions, and there is one."""
    uses = module.tree.uses_of(name)
    return bool(uses) and all(_is_condition(module, use) for use in uses)
