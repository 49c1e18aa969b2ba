"""Modules that are moved in place: `model.to(device)` anywhere in the program moves the object, whatever its name there."""

from __future__ import annotations

import ast
from typing import Literal

from gpuproof.linter.analysis.call import Call, calls_named
from gpuproof.linter.analysis.flow.call_targets import find_definition
from gpuproof.linter.analysis.flow.creations import creations
from gpuproof.linter.analysis.flow.sources import class_of
from gpuproof.linter.analysis.known_types import MOVERS
from gpuproof.linter.analysis.local_imports import program_modules
from gpuproof.linter.analysis.module import Module
from gpuproof.linter.analysis.types.libraries import is_part_class

Answer = Literal["yes", "no", "maybe"]

_LEAVES_IT = frozenset(
    {
        "torch",
        "torchvision",
        "transformers",
        "peft",
        "timm",
        "copy",
        "wandb",
        "mlflow",
        "sagemaker",
        "horovod",
    }
)
"""Packages whose functions do not move a module that they get; those that do are device managers of their own."""
_DTYPES = ("float", "double", "half", "bfloat", "int", "long", "channels_last", "contiguous", "bool")
_OF_MODULES = frozenset(
    [
        "parameters",
        "train",
        "eval",
        "state_dict",
        "load_state_dict",
        "forward",
        "named_parameters",
        "zero_grad",
        "apply",
    ]
)


def is_moved(module: Module, made: list[Call]) -> Answer:
    """Whether a call of the program moves one of these modules in place; `maybe` if the object of such a call is unknown."""
    moves = [other.derived(_Moves) for other in program_modules(module)]
    if any(call.node in other.moved for call in made for other in moves):
        return "yes"
    is_part = any(call.node in other.passed for call in made for other in moves)
    if is_part or any(other.unknown for other in moves) or any(map(_goes_elsewhere, made)):
        return "maybe"
    return "no"


def _goes_elsewhere(made: Call) -> bool:
    """Whether a module is passed to a function that is not in the program, which may move it."""
    module, statement = made.module, made.module.tree.statement(made.node)
    targets = statement.targets if isinstance(statement, ast.Assign) else []
    for use in (
        use for name in targets if isinstance(name, ast.Name) for use in module.tree.uses_of(name.id)
    ):
        call = module.parent(use)
        if isinstance(call, ast.keyword):
            call = module.parent(call)
        if not isinstance(call, ast.Call) or call.func is use:
            continue
        root = (module.qualified(call.func) or "").partition(".")[0]
        is_imported = any(dotted.partition(".")[0] == root for dotted in module.names.imports.values())
        if is_imported and root not in _LEAVES_IT and find_definition(module, call.func) is None:
            return True
    return False


def is_back_on_cpu(module: Module, node: ast.Name) -> bool:
    """Whether the function that uses a module has moved it to the CPU before: `model.cpu()` for a plot."""
    function, line = module.function_of(node), node.lineno
    moves = [
        call
        for call in calls_named(module, "cpu", *MOVERS)
        if isinstance(call.receiver, ast.Name)
        and call.receiver.id == node.id
        and module.function_of(call.node) is function
        and call.node.lineno < line
    ]
    last = max(moves, key=lambda call: call.node.lineno, default=None)
    return last is not None and (last.method == "cpu" or last.argument("device", 0).text == "cpu")


class _Moves:
    """The objects that a module of a program moves in place.

    Attributes:
        moved: the calls that created them.
        passed: the calls that created what is part of another module, which may be moved.
        unknown: whether an object is moved of which nothing is known.
    """

    def __init__(self, module: Module) -> None:
        self.moved: set[ast.Call] = set()
        self.passed: set[ast.Call] = set()
        self.unknown = False
        if module.mentions(".to(", ".cuda("):
            for call in calls_named(module, *MOVERS):
                if call.receiver is not None and not _stays(call):
                    self._add(module, call.receiver)
        if module.mentions("Module"):
            self._add_parts(module)

    def _add(self, module: Module, receiver: ast.expr) -> None:
        made = creations(module, receiver)
        if made:
            self.moved.update(call.node for call in made)
        elif not _is_data(module, receiver):
            self.unknown = True

    def _add_parts(self, module: Module) -> None:
        """Modules that a class of modules makes or gets: they move with it."""
        for owner in module.nodes(ast.ClassDef):
            if not is_part_class(module, owner):
                continue
            for store in module.nodes(ast.Assign):
                target = store.targets[0]
                if (
                    not isinstance(target, ast.Attribute)
                    or module.enclosing(store, ast.ClassDef) is not owner
                ):
                    continue
                if isinstance(store.value, ast.Call):
                    self.passed.add(store.value)
                else:
                    self.passed.update(call.node for call in creations(module, store.value))


def _is_data(module: Module, receiver: ast.expr) -> bool:
    """Whether what is moved is no module: an item, the variable of a loop, or what no code uses as a module."""
    match receiver:
        case ast.Name():
            return not _is_used_as_module(module, receiver)
        case ast.Subscript() | ast.BinOp() | ast.List() | ast.Tuple():
            return True
        case ast.Attribute(attr=name):
            uses = [node for node in module.nodes(ast.Attribute) if node.attr == name]
            return class_of(module, receiver.value) is not None and not any(
                _is_module_use(module, node) for node in uses
            )
        case ast.Call(func=ast.Attribute(attr=name)):
            return name not in ("module", "get_model", "build_model", "create_model")
        case ast.Call(func=ast.Name()):
            # What an unknown function makes is none of the objects whose creation is known.
            return True
        case _:
            return False


def _is_used_as_module(module: Module, name: ast.Name) -> bool:
    bindings = module.reaching(name)
    return any(
        _is_module_use(module, use)
        for use in module.tree.uses_of(name.id)
        if not bindings or any(binding in bindings for binding in module.reaching(use))
    )


def _is_module_use(module: Module, node: ast.AST) -> bool:
    """Whether an object is called, or a method of modules is called on it."""
    parent = module.parent(node)
    if isinstance(parent, ast.Call):
        return parent.func is node
    return isinstance(parent, ast.Attribute) and parent.attr in _OF_MODULES


def _stays(call: Call) -> bool:
    """Whether `x.to(...)` changes the type of numbers only, or moves to the CPU."""
    if call.argument("device", 0).text == "cpu":
        return True
    given = [*call.node.args, *call.keywords.values()]
    names = [call.module.qualified(argument) or "" for argument in given]
    return bool(given) and all(
        name.startswith("torch.") and name.rpartition(".")[2].startswith(_DTYPES) for name in names
    )
