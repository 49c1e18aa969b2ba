"""Finds the line of a script that always fails without a GPU."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from gpuproof.linter.analysis.call import Call, all_calls, calls_named, origin_call
from gpuproof.linter.analysis.evaluation.evaluate import evaluate
from gpuproof.linter.analysis.flow.sources import sources
from gpuproof.linter.analysis.local_imports import local_modules
from gpuproof.linter.analysis.module import Module
from gpuproof.linter.analysis.syntax_index import argument_node
from gpuproof.linter.analysis.usage import uses
from gpuproof.linter.analysis.values import Value
from gpuproof.linter.knowledge.distribution.ranks import always_runs

_FAILS = frozenset(
    {
        "torch.cuda.set_device",
        "torch.cuda.current_device",
        "torch.cuda.get_device_name",
        "torch.cuda.get_device_properties",
        "torch.cuda.get_device_capability",
        "torch.cuda.Stream",
        "torch.cuda.init",
    }
)
"""Functions that raise an exception without a GPU."""
_HOLDERS = re.compile(r"^(torch\.|transformers\.|sentence_transformers\.|diffusers\.|peft\.|timm\.)")
_LIGHTNING = re.compile(r"^(lightning|pytorch_lightning|lightning_fabric)\.(\w+\.)*(Trainer|Fabric)$")
_ARGUMENTS = re.compile(r"(^|\.)\w*TrainingArguments$|^trl\.\w+Config$")
_CHECKS = re.compile(r"(^|\.)(is_available|device_count|(use|no)_(cuda|gpu)|num_gpus|get_device_capability)$")
_VARIABLES = re.compile(r"SM_NUM_GPUS|CUDA_VISIBLE_DEVICES")
_LEAVES = re.compile(r"^(sys\.exit|exit|quit|os\._exit|os\.execv\w*)$")


def line_that_needs_gpu(script: Module) -> int | None:
    """The line of a script that always fails without a GPU; None if there is none, or if the script may avoid it."""
    if any(module.imports("mock", "unittest.mock") or _may_leave(module) for module in local_modules(script)):
        return None
    for node in _requirements(script):
        if always_runs(script, node):
            return script.unit.file_position(getattr(node, "lineno", 1), 1)[1]
    return None


def _requirements(script: Module) -> Iterator[ast.AST]:
    for statement in script.nodes(ast.Assert):
        test = statement.test
        if isinstance(test, ast.Call) and script.qualified(test.func) == "torch.cuda.is_available":
            yield statement
    yield from (node for node in script.nodes(ast.If) if _raises_without_gpu(script, node))
    yield from (call.node for call in all_calls(script) if _fails(call))


_DEVICES = frozenset(
    {
        "torch.cuda.is_available",
        "torch.cuda.device_count",
        "tensorflow.test.is_gpu_available",
        "tensorflow.config.list_physical_devices",
        "tensorflow.config.experimental.list_physical_devices",
    }
)


def _raises_without_gpu(module: Module, node: ast.If) -> bool:
    """Whether a statement is `if not torch.cuda.is_available(): raise …`, or the same for TensorFlow."""
    test = node.test
    if not (isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not)):
        return False
    made = module.origin(test.operand)
    if not isinstance(made, ast.Call) or module.qualified(made.func) not in _DEVICES:
        return False
    last = node.body[-1]
    return not node.orelse and isinstance(last, ast.Raise) and not _ends_well(last)


def _ends_well(statement: ast.Raise) -> bool:
    """Whether `raise SystemExit(0)` ends the script as if it were done."""
    raised = statement.exc
    name = raised.func if isinstance(raised, ast.Call) else raised
    if not isinstance(name, ast.Name) or name.id != "SystemExit":
        return False
    code = argument_node(raised, "code", 0) if isinstance(raised, ast.Call) else None
    return code is None or (isinstance(code, ast.Constant) and code.value in (0, None))


def _fails(call: Call) -> bool:
    name = call.name or ""
    if name in _FAILS:
        return True
    if call.method == "cuda":
        of_torch = call.module.imports("torch") and call.receiver is not None and name != "torch.cuda"
        return of_torch and not call.node.args and not call.keywords
    if call.method == "to" and call.receiver is not None:
        return _is_cuda(call.module, call.expression("device", 0))
    if call.method == "init_process_group":
        return name.startswith("torch.") and _is(call.argument("backend", 0), "nccl")
    if name in ("torch.set_default_device", "torch.set_default_tensor_type"):
        value = call.argument("device" if name.endswith("device") else "t", 0)
        return _is_cuda(call.module, call.expression("device", 0)) or (
            value.is_known and (value.text or "").startswith("torch.cuda.")
        )
    if _LIGHTNING.match(name):
        return any(_is(call.argument("accelerator"), kind) for kind in ("gpu", "cuda"))
    if _ARGUMENTS.search(name):
        # "fp16 mixed precision requires a GPU": accelerate's Accelerator, which the Trainer creates from these arguments.
        value = call.argument("fp16")
        on_cpu = any(call.argument(key).flag for key in ("use_cpu", "no_cuda"))
        return value.is_known and value.flag is True and not on_cpu
    if not (_HOLDERS.match(name) or call.method == "from_pretrained") or name == "torch.device":
        return False
    return (
        any(_is_cuda(call.module, call.expression(key)) for key in ("device", "device_map"))
        and name != "torch.load"
    )


def _is_cuda(module: Module, node: ast.expr | None) -> bool:
    """Whether a device certainly is a GPU: `"cuda"`, `torch.device("cuda:0")`, `f"cuda:{rank}"`, also from a function."""
    if node is None:
        return False
    if isinstance(module.origin(node), (ast.Constant, ast.JoinedStr)):
        return _names_cuda(module, node)
    found = sources(module, node)
    return (
        found.complete
        and bool(found.found)
        and all(_names_cuda(source.module, source.node) for source in found.found)
    )


def _names_cuda(module: Module, node: ast.expr) -> bool:
    made = origin_call(module, node)
    if made is not None and made.name == "torch.device":
        given = made.expression("type", 0)
        return given is not None and _names_cuda(module, given)
    value = evaluate(module, node)
    if value.is_known:
        return isinstance(value.value, str) and value.value.partition(":")[0] == "cuda"
    return value.is_unknown and value.prefix.startswith("cuda:")


def _is(value: Value, text: str) -> bool:
    return value.is_known and value.text == text


def _may_leave(module: Module) -> bool:
    """Whether a script that finds no GPU may end, or run as another program, before it needs one."""
    for node in module.nodes(ast.If):
        if _raises_without_gpu(module, node):
            continue
        checks = uses(module, _CHECKS, "call", "name", "attribute", within=node.test) or uses(
            module, _VARIABLES, "string", within=node.test
        )
        leaves = any(
            _LEAVES.match(call.name or call.method)
            for call in calls_named(module, "exit", "quit", "_exit", "execv", "execvp")
            if module.tree.is_within(call.node, node)
        )
        if checks and (leaves or any(isinstance(child, (ast.Raise, ast.Return)) for child in ast.walk(node))):
            return True
    return False
