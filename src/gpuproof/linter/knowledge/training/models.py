"""Which calls may run a model or a function of the project, by the shape of the callee, and which modules hold no tensors."""

from __future__ import annotations

import ast
import re

from gpuproof.linter.analysis.call import Call, call_of, calls_named, calls_within
from gpuproof.linter.analysis.flow.call_targets import Definition, base_classes, find_definition
from gpuproof.linter.analysis.flow.references import is_stored
from gpuproof.linter.analysis.flow.sources import targets
from gpuproof.linter.analysis.local_imports import program_modules
from gpuproof.linter.analysis.module import Module
from gpuproof.linter.analysis.types import TypeKind, type_of
from gpuproof.linter.analysis.types.libraries import is_module_class

_WEIGHTLESS = re.compile(
    r"torch\.nn\.(\w*Loss|\w*ReLU\w*|Softmax\w*|Sigmoid|Tanh|Flatten|Upsample|\w*Pool\w*|Dropout\w*|\w+Similarity"
    r"|\w*Distance)$"
)
_HOLDERS = ("Parameter", "register_buffer", "register_parameter", "add_module", "register_module", "setattr")
_PLAIN = re.compile(r"^(math\.\w+|float|int|bool|str|len|list|tuple|dict|set|range|min|max|abs|sum|sorted)$")
_CONTAINER = re.compile(r"^torch\.nn\.(Sequential|ModuleList)$")
_MAX_DEPTH = 4


def may_be_model(module: Module, function: ast.expr) -> bool:
    """Whether a callee may be an object with a place of its own: no function, and no layer of a model's own."""
    match function:
        case ast.Name():
            return not any(binding.kind == "definition" for binding in module.reaching(function))
        case ast.Attribute(value=ast.Name(id="self"), attr=name):
            owner = module.enclosing(function, ast.ClassDef)
            return owner is not None and is_stored(module, name) and not is_module_class(module, owner)
        case ast.Attribute(value=ast.Name() | ast.Attribute(), attr=name):
            return is_stored(module, name)
        case _:
            return False


def may_be_own_function(module: Module, function: ast.expr) -> bool:
    """Whether a callee may be a function or method of the project, by its name."""
    name = (
        function.attr
        if isinstance(function, ast.Attribute)
        else function.id
        if isinstance(function, ast.Name)
        else ""
    )
    loader = module.loader
    return name in loader.cached(
        "functions of the program",
        module.unit,
        lambda: frozenset[str]().union(*map(_function_names, program_modules(module))),
    )


def _function_names(module: Module) -> frozenset[str]:
    return module.loader.cached(
        "functions",
        module.unit,
        lambda: frozenset(node.name for node in module.nodes(ast.FunctionDef, ast.AsyncFunctionDef)),
    )


def inputs_of(call: Call) -> list[ast.expr]:
    """The inputs of a model: `model(x, mask)`, `model([image])`, `model(**batch)`."""
    given = [item for item in call.node.args if not isinstance(item, ast.Starred)]
    if len(given) < len(call.node.args):
        return []
    items = [part for item in given for part in (item.elts if isinstance(item, ast.List) else (item,))]
    return items + [keyword.value for keyword in call.node.keywords]


def holds_no_tensors(made: Call, depth: int = 0) -> bool:
    """Whether a module certainly has neither parameters nor buffers: a loss or an activation, also a class of the project."""
    if _WEIGHTLESS.match(made.name or ""):
        # The weights of classes are somewhere, and a rule of their own follows them.
        return True
    if _CONTAINER.match(made.name or ""):
        given = made.node.args
        items = [part for item in given for part in (item.elts if isinstance(item, ast.List) else [item])]
        calls = [call for item in items if (call := call_of(made.module, item)) is not None]
        # An empty list may be filled later.
        return (
            bool(calls)
            and len(calls) == len(items)
            and all(holds_no_tensors(call, depth + 1) for call in calls)
        )
    owners = targets(made.module, made.node.func)
    return (
        bool(owners)
        and depth < _MAX_DEPTH
        and all(
            isinstance(owner.node, ast.ClassDef)
            and all(_class_holds_none(each, depth) for each in base_classes(owner))
            for owner in owners
        )
    )


def _class_holds_none(owner: Definition, depth: int) -> bool:
    module, node = owner
    assert isinstance(node, ast.ClassDef)
    if any(
        module.qualified(base) != "torch.nn.Module" and find_definition(module, base) is None
        for base in node.bases
    ):
        return False
    if calls_within(calls_named(module, *_HOLDERS), node):
        return False
    stores = [
        store
        for store in module.nodes(ast.Assign, ast.AnnAssign)
        if isinstance(store.targets[0] if isinstance(store, ast.Assign) else store.target, ast.Attribute)
        and module.tree.is_within(store, node)
    ]
    return all(store.value is None or _is_no_tensor(module, store.value, depth) for store in stores)


def _is_no_tensor(module: Module, value: ast.expr, depth: int) -> bool:
    """Whether an attribute's value certainly is no tensor, nor a module with some."""
    for node in ast.walk(value):
        if isinstance(node, ast.Call):
            call = call_of(module, node)
            if call is None or not (
                _PLAIN.match(call.name or module.text(node.func)) or holds_no_tensors(call, depth + 1)
            ):
                return False
        elif isinstance(node, (ast.Name, ast.Attribute)) and type_of(module, node).kind in (
            TypeKind.MODULE,
            TypeKind.TENSOR,
        ):
            return False
    return True
