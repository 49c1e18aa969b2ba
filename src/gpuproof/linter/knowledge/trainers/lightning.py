"""Lightning in a module: its Trainers and callbacks, the classes that derive from its own, and their hooks."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import NamedTuple

from gpuproof.linter.analysis.call import Call, calls_named, origin_call
from gpuproof.linter.analysis.flow.call_targets import Definition, find_definition, methods
from gpuproof.linter.analysis.flow.creations import creations
from gpuproof.linter.analysis.module import Module
from gpuproof.linter.analysis.syntax_index import FunctionNode

ROOTS = ("lightning", "pytorch_lightning")
"""The packages of Lightning."""
_OWNERS = ("Trainer", "ModelCheckpoint", "EarlyStopping")
_OF_LIGHTNING = re.compile(r"^(lightning|pytorch_lightning)\.(\w+\.)*(\w+)$")
_BASES = ("LightningModule", "LightningDataModule", "Callback")
_RUNS = ("fit", "validate", "test", "predict")


class Run(NamedTuple):
    """A call of `fit`, `validate`, `test` or `predict` of a Trainer.

    Attributes:
        trainer: the call that creates the Trainer.
    """

    call: Call
    trainer: Call


class Owner(NamedTuple):
    """A class that derives from one of Lightning.

    Attributes:
        base: `LightningModule`, `LightningDataModule` or `Callback`.
    """

    node: ast.ClassDef
    base: str


def class_name(call: Call) -> str | None:
    """`Trainer`, `ModelCheckpoint` or `EarlyStopping`, if a call creates one of Lightning's."""
    match = _OF_LIGHTNING.match(call.name or "")
    return match[3] if match and match[3] in _OWNERS else None


def created(module: Module, *names: str) -> list[Call]:
    """The calls that create objects of these classes of Lightning."""
    if not module.imports(*ROOTS):
        return []
    return [call for call in calls_named(module, *names) if class_name(call) in names]


def runs(module: Module, *names: str) -> list[Run]:
    """The calls of a Trainer's `fit`, `validate`, `test` or `predict` in a module; all four without names."""
    found: list[Run] = []
    for call in calls_named(module, *(names or _RUNS)):
        if call.receiver is None:
            continue
        made = origin_call(module, call.receiver)
        trainers = [made] if made is not None and class_name(made) else creations(module, call.receiver)
        if len(trainers) == 1 and class_name(trainers[0]) == "Trainer":
            found.append(Run(call, trainers[0]))
    return found


def owners(module: Module, *bases: str) -> list[Owner]:
    """The classes of a module that derive from these classes of Lightning, also through classes of the project."""
    found = module.derived(_all_owners)
    return [owner for owner in found if owner.base in bases] if bases else found


def hooks(owner: Owner) -> dict[str, FunctionNode]:
    """The methods that a class defines itself."""
    return {method.name: method for method in methods(owner.node)}


def model_of(run: Run) -> Definition | None:
    """The class of the model that a Trainer runs, if it is one of the project."""
    given = run.call.expression("model", 0)
    made = creations(run.call.module, given) if given is not None else []
    if len(made) != 1:
        return None
    callee = made[0].node.func
    # Net.load_from_checkpoint(...) creates one, too.
    if isinstance(callee, ast.Attribute) and callee.attr == "load_from_checkpoint":
        callee = callee.value
    found = find_definition(made[0].module, callee)
    return found if found is not None and isinstance(found.node, ast.ClassDef) else None


def attribute_values(owner: ast.ClassDef, name: str) -> Iterator[ast.expr]:
    """The values that a class sets `self.name` to, in its methods or its body."""
    for node in ast.walk(owner):
        if not isinstance(node, (ast.Assign, ast.AnnAssign)) or node.value is None:
            continue
        for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
            match target:
                case ast.Attribute(value=ast.Name(id="self"), attr=attr) if attr == name:
                    yield node.value
                case ast.Name(id=identifier) if identifier == name and node in owner.body:
                    yield node.value
                case _:
                    continue


def is_manual(module: Module, owner: Owner) -> bool | None:
    """Whether a LightningModule optimizes itself (`automatic_optimization = False`); None if that is not certain."""
    pending, seen = [Definition(module, owner.node)], set[ast.AST]()
    while pending:
        home, node = pending.pop()
        if node in seen or not isinstance(node, ast.ClassDef):
            continue
        seen.add(node)
        for method in methods(node):
            if method.name == "automatic_optimization":
                return None
        for value in attribute_values(node, "automatic_optimization"):
            return (
                not value.value if isinstance(value, ast.Constant) and isinstance(value.value, bool) else None
            )
        for base in node.bases:
            found = find_definition(home, base)
            if found is not None:
                pending.append(found)
            elif not (home.qualified(base) or "").startswith((*ROOTS, "torch.", "abc.")):
                return None
    return False


def _all_owners(module: Module) -> list[Owner]:
    found: list[Owner] = []
    for node in module.classes.values():
        base = _base_of(Definition(module, node))
        if base is not None:
            found.append(Owner(node, base))
    return found


def _base_of(definition: Definition) -> str | None:
    """The class of Lightning that a class derives from, through classes of the project."""
    pending, seen = [definition], set[ast.AST]()
    while pending:
        module, node = pending.pop()
        if node in seen or not isinstance(node, ast.ClassDef) or len(seen) > 8:
            continue
        seen.add(node)
        for base in node.bases:
            match = _OF_LIGHTNING.match(module.qualified(base) or "")
            if match and match[3] in _BASES:
                return match[3]
            found = find_definition(module, base)
            if found is not None:
                pending.append(found)
    return None
