"""Objects whose attributes are settings: instances of dataclasses, and what parsers make of dataclasses."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from typing import NamedTuple

from gpuproof.linter.analysis.evaluation.settings_files import settings_at
from gpuproof.linter.analysis.evaluation.settings_text import as_default, overlay
from gpuproof.linter.analysis.module import Module
from gpuproof.linter.analysis.syntax_index import argument_node, callee_name
from gpuproof.linter.analysis.values import UNKNOWN, Entries, Value, known

EvaluateIn = Callable[[Module, ast.expr], Value]

_DECORATORS = ("dataclass", "define", "attrs", "s")
_BASES = ("BaseModel", "BaseSettings", "NamedTuple")
_FIELDS = ("field", "Field", "attrib", "ib")
_PARSERS = ("HfArgumentParser", "TrlParser", "H4ArgumentParser")
_FROM_COMMAND_LINE = ("parse_args_into_dataclasses", "parse_args_and_config")
_FROM_FILE = {"parse_json_file": "json_file", "parse_yaml_file": "yaml_file"}
_CLI = frozenset(["tyro.cli", "simple_parsing.parse", "draccus.parse", "pyrallis.parse"])


def own_class(module: Module, node: ast.expr | None) -> tuple[Module, ast.ClassDef] | None:
    """The class of the project that an expression names, and its module."""
    if isinstance(node, ast.Name) and (own := module.classes.get(node.id)) is not None:
        return module, own
    name = module.qualified(node)
    holder, _, last = (name or "").rpartition(".")
    other = module.loader.imported_module(module, holder) if holder else None
    found = other.classes.get(last) if other is not None else None
    return (other, found) if other is not None and found is not None else None


class Field(NamedTuple):
    """A field of a dataclass, and the module that declares it."""

    module: Module
    node: ast.AnnAssign


def dataclass_fields(module: Module, node: ast.ClassDef) -> dict[str, Field] | None:
    """The fields of a dataclass, those of its bases in the project first; None if a base is unknown, or it is none."""
    if not _is_dataclass(module, node):
        return None
    found: dict[str, Field] = {}
    for base in node.bases:
        if (module.qualified(base) or "").rpartition(".")[2] in _BASES:
            continue
        owner = own_class(module, base)
        inherited = dataclass_fields(*owner) if owner is not None and owner[1] is not node else None
        if inherited is None:
            return None
        found |= inherited
    for statement in node.body:
        if not isinstance(statement, ast.AnnAssign) or not isinstance(statement.target, ast.Name):
            continue
        if "ClassVar" not in module.text(statement.annotation):
            found[statement.target.id] = Field(module, statement)
    return found


def field_default(field: ast.AnnAssign) -> ast.expr | None:
    """The expression of a field's default; None without one, and for a factory that is not written out."""
    value = field.value
    if not isinstance(value, ast.Call) or callee_name(value) not in _FIELDS:
        return value
    factory = argument_node(value, "default_factory") or argument_node(value, "factory")
    if factory is not None:
        return factory.body if isinstance(factory, ast.Lambda) else None
    written = argument_node(value, "default", None if callee_name(value) == "field" else 0)
    is_required = isinstance(written, ast.Constant) and written.value is Ellipsis
    return None if is_required else written


def is_required(field: ast.AnnAssign) -> bool:
    """Whether a dataclass needs a value for a field."""
    value = field.value
    if value is None:
        return True
    if not isinstance(value, ast.Call) or callee_name(value) not in _FIELDS:
        return False
    given = {keyword.arg for keyword in value.keywords}
    return not given & {"default", "default_factory", "factory", "init", None} and not value.args


def instance_value(module: Module, node: ast.Call, evaluate: EvaluateIn) -> Value | None:
    """The attributes of an object that a call of a dataclass creates; None for other calls."""
    owner = own_class(module, node.func)
    fields = dataclass_fields(*owner) if owner is not None else None
    if owner is None or fields is None or any(isinstance(part, ast.Starred) for part in node.args):
        return None
    given = Entries()
    for keyword in node.keywords:
        value = evaluate(module, keyword.value)
        if keyword.arg is not None:
            given[keyword.arg] = value
        elif value.entries is not None:
            given.update({key: part for key, part in value.entries.items() if key in fields})
        else:
            return UNKNOWN
    given.update({name: evaluate(module, part) for name, part in zip(fields, node.args, strict=False)})
    return overlay(_defaults(fields, evaluate), known(given))


def parsed_dataclasses(module: Module, node: ast.Call, name: str, evaluate: EvaluateIn) -> Value | None:
    """What a parser makes of dataclasses: a tuple for HfArgumentParser and TrlParser, an object for `tyro.cli`."""
    method = callee_name(node)
    if name in _CLI:
        written = argument_node(node, "config_class", 0)
        found = _defaults_of(module, written, evaluate) if written is not None else None
        return as_default(found) if found is not None else UNKNOWN
    if method not in _FROM_COMMAND_LINE and method not in _FROM_FILE:
        return None
    classes = list(parser_classes(module, node))
    if not classes:
        return None
    own = [(_defaults_of(module, written, evaluate) or _empty()) for written in classes]
    if method in _FROM_COMMAND_LINE:
        return known(tuple(as_default(value) for value in own))
    path = argument_node(node, _FROM_FILE[method], 0)
    loaded = settings_at(module, path, lambda part: evaluate(module, part))
    values: list[Value] = []
    for written, value in zip(classes, own, strict=True):
        owner = own_class(module, written)
        fields = dataclass_fields(*owner) if owner is not None else None
        mine = Entries({key: part for key, part in loaded.parts.items() if fields is None or key in fields})
        values.append(overlay(value, known(mine) if loaded.entries is not None else UNKNOWN))
    return known(tuple(values))


def parser_classes(module: Module, parse: ast.Call) -> Iterator[ast.expr]:
    """The dataclasses of the parser whose method a call is; none if they are not written out."""
    if not isinstance(parse.func, ast.Attribute):
        return
    made = module.origin(parse.func.value)
    if not isinstance(made, ast.Call) or callee_name(made) not in _PARSERS:
        return
    written = module.origin(argument_node(made, "dataclass_types", 0))
    if isinstance(written, (ast.Tuple, ast.List)):
        yield from written.elts
    elif written is not None:
        yield written


def _defaults_of(module: Module, written: ast.expr, evaluate: EvaluateIn) -> Value | None:
    owner = own_class(module, written)
    fields = dataclass_fields(*owner) if owner is not None else None
    return _defaults(fields, evaluate) if fields is not None else None


def _defaults(fields: dict[str, Field], evaluate: EvaluateIn) -> Value:
    entries = Entries()
    for name, field in fields.items():
        written = field_default(field.node)
        entries[name] = evaluate(field.module, written) if written is not None else UNKNOWN
    return known(entries)


def _empty() -> Value:
    entries = Entries()
    entries.complete = False
    return known(entries)


def _is_dataclass(module: Module, node: ast.ClassDef) -> bool:
    for decorator in node.decorator_list:
        called = decorator.func if isinstance(decorator, ast.Call) else decorator
        name = called.attr if isinstance(called, ast.Attribute) else getattr(called, "id", "")
        if name in _DECORATORS:
            return True
    return any(name.rpartition(".")[2] in _BASES for name in module.bases(node))
