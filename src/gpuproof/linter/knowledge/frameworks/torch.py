"""PyTorch facts about scripts: moves to devices, libraries that place models, evaluation functions, tests."""

from __future__ import annotations

import ast
import re

from gpuproof.linter.analysis.call import Call, calls_named, calls_within
from gpuproof.linter.analysis.evaluation.evaluate import evaluate
from gpuproof.linter.analysis.flow.sources import sources
from gpuproof.linter.analysis.local_imports import program_units
from gpuproof.linter.analysis.module import Module
from gpuproof.linter.analysis.syntax_index import FunctionNode, callee_name
from gpuproof.linter.analysis.types.loaders import only_collates
from gpuproof.linter.analysis.usage import find_uses, uses
from gpuproof.linter.knowledge.aws.instances import gpus_per_host
from gpuproof.linter.project import Project
from gpuproof.linter.source.test_files import is_test_file

_EVALUATES = re.compile(
    r"^(test|eval|evaluate|validate|valid|validation|val|inference|infer|predict)($|_)|_(eval|evaluate|validate|predict)$"
)
_LIGHTNING_MODULE = re.compile(r"^(lightning|pytorch_lightning)\.(\w+\.)*LightningModule$")
_CUDA = re.compile(r"^torch\.cuda\.")
_DEVICE_MANAGERS = (
    "accelerate",
    "lightning",
    "pytorch_lightning",
    "deepspeed",
    "fastai",
    "ignite",
    "skorch",
    "ray",
    "composer",
    "torch_geometric",
    "dgl",
)
UTILITIES = re.compile(
    r"(^|\.)(set_seed|seed_everything|get_logger|logging|rank_zero_\w+|is_\w+_available|release_memory|clear_device_cache|__version__"
    r"|print_trainable_parameters|find_executable_batch_size)$"
)
"""Functions of these libraries that move, wrap and connect nothing."""


def runs_without_gpu(module: Module, project: Project) -> bool:
    """Whether jobs run a module, and all of them on instances without a GPU."""
    jobs = project.jobs_running(module)
    return bool(jobs) and all(gpus_per_host(project, job) == 0 for job in jobs)


def is_test(module: Module) -> bool:
    """Whether a file is a test, by its path."""
    return is_test_file(module.unit)


def has_evaluation_name(function: FunctionNode) -> bool:
    """Whether a function evaluates or predicts, by its name."""
    return _EVALUATES.search(function.name.lower()) is not None


def imports_device_manager(module: Module) -> bool:
    """Whether a module has a part of a library that moves models and batches to devices itself; a seed is none."""
    if not module.imports(*_DEVICE_MANAGERS):
        return False
    if module.names.has_star:
        return True
    managed = tuple(f"{name}." for name in _DEVICE_MANAGERS)
    named = [dotted for dotted in module.names.imports.values() if f"{dotted}.".startswith(managed)]
    # A module as a whole is used by what the code names of it, a name by being imported: it may be a type.
    parts = [dotted for dotted in named if dotted not in module.names.modules]
    parts += [use.text for use in find_uses(module, "name", "call") if f"{use.text}.".startswith(managed)]
    return any(not UTILITIES.search(part) for part in parts)


def is_lightning_module(module: Module, owner: ast.ClassDef) -> bool:
    """Whether a class is a LightningModule, also through classes of the same file."""
    return any(_LIGHTNING_MODULE.match(base) for base in module.bases(owner))


def moves_to_gpu(call: Call) -> bool:
    """Whether a call of `.cuda()` or `.to(device)` certainly moves to a GPU if there is one."""
    if call.method == "cuda":
        return True
    if call.method != "to":
        return False
    target = call.expression("device", 0)
    return target is not None and is_gpu(call.module, target)


def is_gpu(module: Module, device: ast.expr, depth: int = 0) -> bool:
    """Whether a device certainly is a GPU if there is one: through names, attributes and parameters of the program."""
    texts = evaluate(module, device).texts
    if texts:
        return any(text.startswith("cuda") for text in texts)
    for home, made in sources(module, device).found:
        name = home.qualified(made) or ""
        if name.startswith("torch.") and not isinstance(made, ast.Call):
            continue
        if isinstance(made, ast.Constant):
            if str(made.value).startswith("cuda"):
                return True
            continue
        if any(isinstance(node, ast.Constant) and "cuda" in str(node.value) for node in ast.walk(made)):
            return True
        if uses(home, _CUDA, "name", "call", within=made):
            return True
        chosen = made.args[0] if isinstance(made, ast.Call) and made.args and depth < _MAX_DEVICES else None
        if chosen is not None and callee_name(made) == "device" and is_gpu(home, chosen, depth + 1):  # pyright: ignore[reportArgumentType]
            return True
    return False


def program_may_use_cuda(module: Module) -> bool:
    """Whether a text of the programs that run a module contains `cuda`: to skip files quickly, never to decide."""
    return module.loader.cached(
        "cuda in the program",
        module.unit,
        lambda: any("cuda" in unit.source for unit in program_units(module)),
    )


_MAX_DEVICES = 3


def moved_names(module: Module, around: ast.AST) -> set[str]:
    """Names that code inside a node moves to a GPU: `model.to(device)`, `x = x.cuda()`."""
    return {
        call.receiver.id
        for call in calls_within(calls_named(module, "to", "cuda"), around)
        if isinstance(call.receiver, ast.Name) and moves_to_gpu(call)
    }


def is_inside_with(module: Module, node: ast.AST, words: tuple[str, ...]) -> bool:
    """Whether a `with` or decorator around a node, in the same function, uses a name that contains one of these words."""
    for ancestor in module.tree.ancestors(node):
        heads = ancestor.items if isinstance(ancestor, (ast.With, ast.AsyncWith)) else ()
        if any(_names_one(item.context_expr, words) for item in heads):
            return True
        if isinstance(ancestor, (ast.FunctionDef, ast.AsyncFunctionDef)):
            return any(_names_one(decorator, words) for decorator in ancestor.decorator_list)
    return False


def _names_one(node: ast.expr, words: tuple[str, ...]) -> bool:
    names = (
        child.id if isinstance(child, ast.Name) else child.attr if isinstance(child, ast.Attribute) else ""
        for child in ast.walk(node)
    )
    return any(word in name for name in names for word in words)


def changes_gradients(module: Module, around: list[ast.AST] | ast.AST) -> bool:
    """Whether code assigns gradients or changes them in place; reading one, such as its norm, changes nothing."""
    for use in find_uses(module, "attribute", within=around):
        if use.text != "grad":
            continue
        node, parent = use.node, module.parent(use.node)
        if isinstance(node, ast.Attribute) and not isinstance(node.ctx, ast.Load):
            return True
        while isinstance(parent, (ast.Attribute, ast.Subscript)) and node is parent.value:
            if not isinstance(parent.ctx, ast.Load) or (
                isinstance(parent, ast.Attribute) and parent.attr.endswith("_")
            ):
                return True
            node, parent = parent, module.parent(parent)
        # A list of gradients, or a name for one, may be changed by what gets it.
        if not isinstance(
            parent, (ast.Call, ast.Compare, ast.If, ast.IfExp, ast.BoolOp, ast.UnaryOp, ast.FormattedValue)
        ):
            return True
        if isinstance(parent, ast.Call) and node in parent.args and _IN_PLACE.search(callee_name(parent)):
            return True
    return False


_IN_PLACE = re.compile(r"_$|zero|clip|scale|set|copy|reduce|broadcast|div|mul")


def is_collated(module: Module, node: ast.AST) -> bool:
    """Whether a loader whose batches a loop around a node reads has its own `collate_fn`, which may move them."""
    for loop in module.loops_around(node):
        iterated = getattr(loop, "iter", None)
        names = (
            [child for child in ast.walk(iterated) if isinstance(child, ast.Name)]
            if iterated is not None
            else []
        )
        for made in (iterated, *(module.origin(name) for name in names)):
            if made is not None and any(
                not only_collates(module, keyword.value)
                for keyword in module.nodes(ast.keyword)
                if keyword.arg == "collate_fn" and module.tree.is_within(keyword, made)
            ):
                return True
    return False
