"""Finds the parameters that a Python callable accepts, following `**kwargs` through forwarding calls.

Runs inside the environment of the package that it reads (`build_sdk_tables.py` starts it there), so it uses the
standard library alone. `inspect` gives a callable's own parameters; the callable's source says what becomes of its
`**kwargs`: passed to the next constructor, read by name, ignored, or used in a way that cannot be followed.
"""

from __future__ import annotations

import ast
import dataclasses
import functools
import inspect
import os
import sys
import textwrap
from typing import Any, Literal

Unknown = Literal["error", "ignored", "open"]
"""The effect of an unknown keyword: a TypeError or validation error, none, or unknown."""


@dataclasses.dataclass(frozen=True)
class Parameter:
    """One parameter; `default` is the repr of a plain literal default."""

    name: str
    required: bool = False
    keyword_only: bool = False
    default: str | None = None


@dataclasses.dataclass(frozen=True)
class Accepted:
    """The parameters of a call, in order, and the effect of any other keyword."""

    parameters: tuple[Parameter, ...]
    unknown: Unknown
    renamed: tuple[tuple[str, str], ...] = ()
    """Deprecated names, with the new names."""
    dropped: tuple[str, ...] = ()
    """Deprecated names that are accepted with a warning and ignored."""

    def names(self) -> set[str]:
        return {parameter.name for parameter in self.parameters}


OPEN = Accepted((), "open")
DEPTH = 12
LONGEST_DEFAULT = 24


def of_class(cls: type) -> Accepted:
    """The parameters of a class."""
    fields = getattr(cls, "model_fields", None)
    if isinstance(fields, dict) and not _writes_own_constructor(cls):
        return _of_pydantic(cls, fields)
    if cls.__init__ is object.__init__:
        return Accepted((), "error") if cls.__new__ is object.__new__ else OPEN
    return _of_function(cls.__init__, cls, bound=True, depth=0)


def of_method(cls: type, name: str) -> Accepted:
    """The parameters of a method, called on an instance of `cls` or, for class methods, on the class."""
    raw = inspect.getattr_static(cls, name)
    if isinstance(raw, staticmethod):
        return _of_function(raw.__func__, cls, bound=False, depth=0)
    function = raw.__func__ if isinstance(raw, classmethod) else raw
    return _of_function(function, cls, bound=True, depth=0)


def of_function(function: Any) -> Accepted:
    """The parameters of a function."""
    return _of_function(function, None, bound=False, depth=0)


def _writes_own_constructor(cls: type) -> bool:
    return not cls.__init__.__module__.startswith("pydantic")


def _of_pydantic(cls: type, fields: dict[str, Any]) -> Accepted:
    extra = getattr(cls, "model_config", {}).get("extra") or "ignore"
    by_extra: dict[str, Unknown] = {"forbid": "error", "allow": "open", "ignore": "ignored"}
    return Accepted(
        tuple(
            Parameter(field.alias or name, field.is_required(), True, _literal(field.default))
            for name, field in fields.items()
        ),
        by_extra[extra],
    )


def _of_function(function: Any, owner: type | None, bound: bool, depth: int) -> Accepted:
    function = inspect.unwrap(function)
    if isinstance(function, functools.partialmethod) or not inspect.isfunction(function):
        return OPEN
    listed = list(inspect.signature(function).parameters.values())[1 if bound else 0 :]
    named = tuple(
        _parameter(each) for each in listed if each.kind not in (each.VAR_KEYWORD, each.VAR_POSITIONAL)
    )
    swallowing = [each.name for each in listed if each.kind is each.VAR_KEYWORD]
    if not swallowing:
        return Accepted(named, "error")
    if depth > DEPTH or (tree := _tree(function)) is None or _is_empty(tree):
        return Accepted(named, "open")
    return _merged(named, _Uses(tree, swallowing[0], function), owner, depth)


def _is_empty(tree: ast.Module) -> bool:
    """Whether a function is abstract: only a docstring, `pass`, `...` or an exception."""
    body = getattr(tree.body[0], "body", None)
    passive = (ast.Pass, ast.Raise)
    return isinstance(body, list) and all(
        isinstance(each, passive) or (isinstance(each, ast.Expr) and isinstance(each.value, ast.Constant))
        for each in body
    )


def _merged(named: tuple[Parameter, ...], uses: _Uses, owner: type | None, depth: int) -> Accepted:
    parameters = {each.name: each for each in named}
    renamed, dropped = dict(uses.renamed), set(uses.dropped)
    unknown: Unknown = "open" if uses.opaque else "ignored"
    ends: list[Unknown] = []
    for call, added in uses.forwards:
        target = _target(call, uses.function, owner, depth)
        given = _given(call, target) | added
        for each in target.parameters:
            if each.name not in given and each.name not in parameters:
                required = each.required and len(uses.forwards) == 1
                parameters[each.name] = dataclasses.replace(each, required=required, keyword_only=True)
        renamed.update(target.renamed)
        dropped.update(target.dropped)
        ends.append(target.unknown)
    for name in sorted(uses.read - set(renamed) - dropped):
        parameters.setdefault(name, Parameter(name, keyword_only=True))
    if ends and not uses.opaque:
        unknown = next(each for each in ("open", "ignored", "error") if each in ends)
    old = {key: value for key, value in renamed.items() if key not in parameters}
    return Accepted(
        tuple(parameters.values()),
        unknown,
        tuple(sorted(old.items())),
        tuple(sorted(dropped - set(parameters))),
    )


def _target(call: ast.Call, function: Any, owner: type | None, depth: int) -> Accepted:
    """The parameters of the call that `**kwargs` is passed to."""
    match call.func:
        case ast.Attribute(value=ast.Call(func=ast.Name(id="super")), attr=name) if owner:
            found = _next_in_line(owner, function, name)
        case ast.Attribute(value=ast.Name(id="self" | "cls"), attr=name) if owner:
            found = inspect.getattr_static(owner, name, None)
        case ast.Name(id="cls") if owner:
            found = owner
        case ast.Name(id=name):
            found = function.__globals__.get(name)
        case ast.Attribute(value=ast.Name(id=base), attr=name):
            found = getattr(function.__globals__.get(base), name, None)
        case _:
            found = None
    if found is object.__init__:
        return Accepted((), "error")
    if isinstance(found, type):
        return of_class(found) if depth < DEPTH else OPEN
    if isinstance(found, (classmethod, staticmethod)):
        return _of_function(found.__func__, owner, isinstance(found, classmethod), depth + 1)
    if found is None:
        return OPEN
    return _of_function(found, owner, isinstance(call.func, ast.Attribute) and owner is not None, depth + 1)


def _next_in_line(owner: type, function: Any, name: str) -> Any:
    """The method that `super()` resolves to from `function`, in the MRO of `owner`."""
    line = list(owner.__mro__)
    for place, cls in enumerate(line):
        for value in vars(cls).values():
            if inspect.unwrap(getattr(value, "__func__", value)) is function:
                return next((vars(base)[name] for base in line[place + 1 :] if name in vars(base)), None)
    return None


def _given(call: ast.Call, target: Accepted) -> set[str]:
    """Arguments that the forwarding call passes itself."""
    by_place = [each.name for each in target.parameters if not each.keyword_only][: len(call.args)]
    return {*by_place, *(keyword.arg for keyword in call.keywords if keyword.arg)}


class _Uses:
    """The use of `**kwargs` in a function."""

    def __init__(self, tree: ast.AST, name: str, function: Any) -> None:
        self.function = function
        self.forwards: list[tuple[ast.Call, set[str]]] = []
        """Calls that receive the keywords, with the keys that are overwritten before."""
        self.read: set[str] = set()
        self.renamed: dict[str, str] = {}
        self.dropped: set[str] = set()
        self.opaque = False
        self._name = name
        self._understood: set[int] = set()
        for node in ast.walk(tree):
            self._look(node)
        seen = {id(node) for node in ast.walk(tree) if self._is_it(node) and isinstance(node.ctx, ast.Load)}  # type: ignore[attr-defined]
        self.opaque = bool(seen - self._understood)

    def _is_it(self, node: ast.AST) -> bool:
        return isinstance(node, ast.Name) and node.id == self._name

    def _look(self, node: ast.AST) -> None:
        match node:
            case ast.Call(func=ast.Name(id="renamed_kwargs"), args=[old, new, *_]) if self._passes(node):
                self.renamed[_text(old)] = _text(new)
            case ast.Call(func=ast.Name(id="removed_kwargs"), args=[old, *_]) if self._passes(node):
                self.dropped.add(_text(old))
            case ast.Call(
                func=ast.Attribute(value=it, attr="get" | "pop" | "setdefault"), args=[key, *_]
            ) if self._is_it(it):
                self._reads(it, key)
            case ast.Subscript(value=it, slice=key) if self._is_it(it):
                self._understood.add(id(it))
                # Keys that the function sets itself do not come from the caller, unless they are also read.
                if isinstance(node.ctx, ast.Load):
                    self._reads(it, key)
            case ast.Compare(left=key, ops=[ast.In() | ast.NotIn()], comparators=[it]) if self._is_it(it):
                self._reads(it, key)
            case ast.Call():
                self._hands_on(node)
            case _:
                pass

    def _passes(self, call: ast.Call) -> bool:
        found = [arg for arg in call.args if self._is_it(arg)]
        self._understood.update(map(id, found))
        return bool(found)

    def _reads(self, it: ast.AST, key: ast.AST) -> None:
        self._understood.add(id(it))
        if isinstance(key, ast.Constant):
            self.read.add(str(key.value))
        else:
            self.opaque = True

    def _hands_on(self, call: ast.Call) -> None:
        for keyword in call.keywords:
            match keyword:
                case ast.keyword(arg=None, value=it) if self._is_it(it):
                    self._understood.add(id(it))
                    self.forwards.append((call, set()))
                case ast.keyword(
                    arg=None, value=ast.Call(func=ast.Name(id="dict"), args=[it], keywords=added)
                ) if self._is_it(it):
                    self._understood.add(id(it))
                    self.forwards.append((call, {each.arg for each in added if each.arg}))
                case _:
                    pass
        passed = [arg for arg in (*call.args, *(k.value for k in call.keywords if k.arg)) if self._is_it(arg)]
        if passed and self._is_sdk_function(call.func):
            self._understood.update(map(id, passed))
            self.read |= _keys_read(self.function, call.func)

    def _is_sdk_function(self, callee: ast.expr) -> bool:
        """A function or method of the SDK that reads single keys; its module shows which."""
        if isinstance(callee, ast.Name):
            home = getattr(self.function.__globals__.get(callee.id), "__module__", None) or ""
            return home.partition(".")[0] == self.function.__module__.partition(".")[0]
        if not isinstance(callee, ast.Attribute) or not isinstance(callee.value, ast.Name):
            return False
        return callee.value.id == "self" or inspect.ismodule(self.function.__globals__.get(callee.value.id))


def _keys_read(function: Any, callee: ast.expr) -> set[str]:
    """Keys of a dictionary named `kwargs` that the module of a function, or of a function that it calls, reads."""
    name = callee.id if isinstance(callee, ast.Name) else ""
    modules = {function.__module__, getattr(function.__globals__.get(name), "__module__", None)}
    if isinstance(callee, ast.Attribute) and isinstance(callee.value, ast.Name):
        modules.add(getattr(function.__globals__.get(callee.value.id), "__name__", None))
    found: set[str] = set()
    for module in modules & set(sys.modules):
        found |= _module_keys(module)
    return found


@functools.cache
def _module_keys(module: str) -> frozenset[str]:
    found: set[str] = set()
    for node in ast.walk(ast.parse(inspect.getsource(sys.modules[module]))):
        match node:
            case (
                ast.Subscript(value=ast.Name(id="kwargs"), slice=ast.Constant(value=str(key)), ctx=ast.Load())
                | ast.Call(
                    func=ast.Attribute(value=ast.Name(id="kwargs"), attr="get" | "pop"),
                    args=[ast.Constant(value=str(key)), *_],
                )
                | ast.Compare(left=ast.Constant(value=str(key)), comparators=[ast.Name(id="kwargs")])
            ):
                found.add(key)
            case _:
                pass
    return frozenset(found)


def _parameter(each: inspect.Parameter) -> Parameter:
    return Parameter(
        each.name,
        each.default is each.empty,
        each.kind is each.KEYWORD_ONLY,
        _literal(each.default),
    )


def _literal(value: Any) -> str | None:
    if isinstance(value, str) and value.startswith(os.getcwd()):  # noqa: PTH109 - where the tool was started says nothing
        return None
    if type(value) in (bool, int, float) or (type(value) is str and value and value.isascii()):
        text = repr(value)
        return text if len(text) <= LONGEST_DEFAULT and " " not in text else None
    return None


def _text(node: ast.AST) -> str:
    return str(node.value) if isinstance(node, ast.Constant) else ""


def _tree(function: Any) -> ast.Module | None:
    try:
        return ast.parse(textwrap.dedent(inspect.getsource(function)))
    except (OSError, TypeError, SyntaxError, IndentationError):
        return None
