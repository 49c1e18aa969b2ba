"""The device that a program chooses for its model, and the place where that is written: a settings file, a field, a constant."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import NamedTuple

from gpuproof.linter.analysis.call import Call, calls_named, calls_to
from gpuproof.linter.analysis.evaluation.argparse_model import is_parsed_arguments
from gpuproof.linter.analysis.evaluation.dataclass_values import dataclass_fields, field_default
from gpuproof.linter.analysis.evaluation.evaluate import evaluate
from gpuproof.linter.analysis.flow.sources import class_of, sources
from gpuproof.linter.analysis.flow.values import program_value
from gpuproof.linter.analysis.local_imports import program_modules
from gpuproof.linter.analysis.module import Module
from gpuproof.linter.analysis.syntax_index import callee_name
from gpuproof.linter.analysis.values import Value
from gpuproof.linter.source.span import Span

_CPU = re.compile(r"^cpu(:\d+)?$")
_GPU = re.compile(r"^(cuda|mps|xpu|gpu)\b")
_MODEL = re.compile(
    r"model|net|module|encoder|decoder|generator|discriminator|student|classifier|backbone|policy|actor|critic"
)
_NO_USE = frozenset({"add_argument", "print", "option", "Option", "Choice", "info", "field", "Field"})
"""Calls that describe a device and use none."""


class ChosenDevice(NamedTuple):
    """A device that is chosen for the model.

    Attributes:
        module, node: the expression that names it, in the call that uses it.
        span: where it is written.
        certain: whether nothing that is known here can change it.
    """

    module: Module
    node: ast.expr
    span: Span
    certain: bool


def cpu_choices(module: Module) -> Iterator[ChosenDevice]:
    """Places of a module where the CPU is chosen for the model or as the device of the program.

    None if the program also names a GPU anywhere: then the CPU may be for a part of the work.
    """
    if not any(uses_gpu(other) for other in program_modules(module)):
        for call in calls_to(module, "torch.device"):
            written = call.expression("type", 0) or call.expression("device")
            yield from _chosen(module, written)
        for call in calls_named(module, "to"):
            if call.receiver is not None and _is_model(call):
                yield from _chosen(module, call.expression("device", 0))


def uses_gpu(module: Module) -> bool:
    """Whether code names a GPU: `"cuda:0"`, `.cuda()`; not in a message, nor among the choices of an option."""
    return module.derived(_uses_gpu)


def _uses_gpu(module: Module) -> bool:
    if any(call.receiver is not None for call in calls_named(module, "cuda")):
        return True
    for constant in module.nodes(ast.Constant):
        if isinstance(constant.value, str) and _GPU.match(constant.value):
            around = [item for item in module.tree.ancestors(constant) if isinstance(item, ast.Call)]
            parent = module.parent(constant)
            is_default = isinstance(parent, ast.keyword) and parent.arg == "default"
            if is_default or not any(callee_name(call) in _NO_USE for call in around[:2]):
                return True
    return False


def _is_model(call: Call) -> bool:
    receiver = call.receiver
    if isinstance(receiver, ast.Call):
        name = callee_name(receiver)
        return name[:1].isupper() or _MODEL.search(name.lower()) is not None
    return receiver is not None and _MODEL.search(call.module.text(receiver).lower()) is not None


def _chosen(module: Module, written: ast.expr | None) -> Iterator[ChosenDevice]:
    if written is None or (isinstance(written, ast.Constant) and not _is_cpu(evaluate(module, written))):
        return
    for place, node in _ends(module, written):
        if isinstance(node, (ast.Attribute, ast.Name)) and is_parsed_arguments(
            place, node.value if isinstance(node, ast.Attribute) else node
        ):
            value = evaluate(place, node)
            if value.is_known and _is_cpu(value):
                yield ChosenDevice(module, written, place.span(node), certain=True)
            continue
        value = program_value(place, node)
        if value.is_known and _is_cpu(value):
            yield ChosenDevice(module, written, _written_at(place, node), certain=True)
        elif isinstance(node, ast.Attribute) and (field := _field(place, node)) is not None:
            yield ChosenDevice(module, written, field, certain=False)


def _ends(module: Module, written: ast.expr) -> list[tuple[Module, ast.expr]]:
    """The expressions that name the device: through names and `torch.device(...)`; empty if there may be others."""
    found = sources(module, written)
    if not found.complete or not found.found:
        return [(module, written)]
    ends: list[tuple[Module, ast.expr]] = []
    for source in found.found:
        if isinstance(source.node, ast.Call):
            # torch.device(...) is looked at itself.
            return []
        ends.append((source.module, source.node))
    return ends if len(ends) == 1 else []


def _written_at(module: Module, node: ast.expr) -> Span:
    """The position of a setting in its file, or else of the expression."""
    match node:
        case ast.Attribute(value=holder, attr=key):
            part = evaluate(module, holder).parts.get(key)
        case ast.Subscript(value=holder, slice=ast.Constant(value=key)):
            part = evaluate(module, holder).parts.get(key)
        case _:
            part = None
    return part.span if part is not None and part.span is not None else module.span(node)


def _field(module: Module, node: ast.Attribute) -> Span | None:
    """The field of a dataclass with the CPU as its default, if nothing in the program passes another value."""
    owner = class_of(module, node.value)
    if owner is None or not isinstance(owner.node, ast.ClassDef):
        return None
    fields = dataclass_fields(owner.module, owner.node)
    field = fields.get(node.attr) if fields is not None else None
    default = field_default(field.node) if field is not None else None
    if field is None or default is None or not _is_cpu(evaluate(field.module, default)):
        return None
    if any(_sets(other, node.attr) for other in program_modules(module, node.attr)):
        return None
    return field.module.span(field.node)


def _sets(module: Module, name: str) -> bool:
    """Whether code of a module may set an attribute of this name: an assignment, a keyword, an option, a key."""
    if any(node.attr == name and isinstance(node.ctx, ast.Store) for node in module.nodes(ast.Attribute)):
        return True
    if any(keyword.arg == name for keyword in module.nodes(ast.keyword)):
        return True
    return any(
        isinstance(constant.value, str) and constant.value.lstrip("-").replace("-", "_") == name
        for constant in module.nodes(ast.Constant)
    )


def _is_cpu(value: Value) -> bool:
    return value.text is not None and _CPU.match(value.text) is not None
