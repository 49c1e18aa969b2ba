"""Evaluates expressions statically: the result is known, a default that can be overridden, or unknown if in doubt."""

from __future__ import annotations

import ast
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from gpuproof.linter.analysis import container_env
from gpuproof.linter.analysis.evaluation.argparse_model import (
    CommandLine,
    is_parsed_arguments,
    read_command_line,
)
from gpuproof.linter.analysis.evaluation.bound_arguments import bind_arguments
from gpuproof.linter.analysis.evaluation.dataclass_values import instance_value, parsed_dataclasses
from gpuproof.linter.analysis.evaluation.frames import MAX_FRAMES, assigned_attributes, called_function
from gpuproof.linter.analysis.evaluation.hydra_files import hydra_settings
from gpuproof.linter.analysis.evaluation.limits import Progress, is_small
from gpuproof.linter.analysis.evaluation.methods import SAME_AS_ARGUMENT, converted, method_value
from gpuproof.linter.analysis.evaluation.operators import (
    arithmetic,
    concatenate,
    is_textual,
    joined_path,
    percent,
)
from gpuproof.linter.analysis.evaluation.own_paths import (
    OWN_FOLDERS,
    folder_above,
    own_file,
    own_folder,
    rebased,
)
from gpuproof.linter.analysis.evaluation.settings_files import (
    NAMESPACES,
    loaded_settings,
    option_default,
)
from gpuproof.linter.analysis.evaluation.stored_keys import with_stored_keys
from gpuproof.linter.analysis.module import Module
from gpuproof.linter.analysis.scopes import Binding
from gpuproof.linter.analysis.syntax_index import argument_node
from gpuproof.linter.analysis.values import ABSENT, UNKNOWN, Entries, Value, default, known, one_of

MAX_DEPTH = 40
MAX_ITEMS = 10_000
"""A longer list or mapping is data, not the description of a job: it is unknown."""
_DEFAULT_ARGUMENTS: dict[str, tuple[str, int]] = {
    "ParameterString": ("default_value", 1),
    "ParameterInteger": ("default_value", 1),
    "ParameterFloat": ("default_value", 1),
    "ParameterBoolean": ("default_value", 1),
    "Option": ("default", 0),
    "Argument": ("default", 0),
}
"""The argument with the value of pipeline parameters, and of options of typer."""
_ENVIRONMENT = frozenset({"os.environ.get", "os.getenv", "environ.get", "getenv", "os.environ.setdefault"})


def evaluate(module: Module, node: ast.expr | None) -> Value:
    """The possible values of an expression in a module; absent for None.

    It evaluates constants, names with a known binding, f-strings, `+`, `%`, `.format`, paths, mappings and their items,
    ternaries, `args.name` of argparse, environment variables with a default, SageMaker's `SM_*` paths, pipeline
    parameters, and constants of modules of the same project.
    """
    if node is None:
        return ABSENT
    return _Evaluator(module).value(node, 0).with_span(module.span(node))


def command_line(module: Module) -> CommandLine:
    """The command line that a module's `argparse` parser declares, with the values of the job that is about to run."""
    return module.derived(_command_line)


def _command_line(module: Module) -> CommandLine:
    line = read_command_line(module, evaluate)
    words = module.loader.job_arguments(module.unit)
    return line if words is None else bind_arguments(module, line, words)


class _Evaluator:
    def __init__(self, module: Module) -> None:
        self._module = module
        self._progress = module.derived(Progress)
        self._frames: dict[ast.AST, dict[str, Value]] = {}

    def value(self, node: ast.expr, depth: int) -> Value:
        progress = self._progress
        handler = _HANDLERS.get(type(node))
        if handler is None:
            return UNKNOWN
        if (found := progress.results.get(node)) is not None:
            return found
        if depth > MAX_DEPTH or not progress.enter(node):
            progress.cuts += 1
            return UNKNOWN
        cuts = progress.cuts
        try:
            value = handler(self, node, depth + 1)
        finally:
            progress.open.discard(node)
        if progress.cuts == cuts:
            return progress.keep(node, value)
        return value

    def spanned(self, node: ast.expr, depth: int) -> Value:
        return self.value(node, depth).with_span(self._module.span(node))

    def constant(self, node: ast.Constant, _: int) -> Value:
        return known(node.value) if is_small(node.value) else UNKNOWN

    def name(self, node: ast.Name, depth: int) -> Value:
        bindings = self._module.reaching(node)
        if not bindings:
            if node.id == "__file__":
                return own_file(self._module)
            return self._imported(self._module.names.imports.get(node.id), depth)
        return one_of(self._bound(binding, depth) for binding in bindings)

    def attribute(self, node: ast.Attribute, depth: int) -> Value:
        module = self._module
        if is_parsed_arguments(module, node.value):
            argument = command_line(module).by_dest(node.attr)
            if argument is not None:
                return argument.value if argument.value.options else UNKNOWN
        if isinstance(node.value, ast.Name) and node.value.id in ("self", "cls"):
            return self._own_attribute(node, depth)
        if (qualified := module.qualified(node)) is not None:
            return self._imported(qualified, depth)
        holder = self.value(node.value, depth)
        if holder.entries is not None and node.attr in holder.entries:
            return UNKNOWN if node.attr in module.derived(assigned_attributes) else holder.entries[node.attr]
        if node.attr == "parent":
            return own_folder([holder])
        return holder if node.attr == "default_value" else UNKNOWN

    def joined(self, node: ast.JoinedStr, depth: int) -> Value:
        pieces: list[Value] = []
        for part in node.values:
            if isinstance(part, ast.FormattedValue):
                plain = part.format_spec is None and part.conversion == -1
                pieces.append(self.value(part.value, depth) if plain else UNKNOWN)
            else:
                pieces.append(self.value(part, depth))
        return concatenate(pieces)

    def binary(self, node: ast.BinOp, depth: int) -> Value:
        left, right = self.value(node.left, depth), self.value(node.right, depth)
        match node.op:
            case ast.Add() if is_textual(left) or is_textual(right):
                return concatenate([left, right])
            case ast.Div() if is_textual(left):
                return joined_path([left, right])
            case ast.Mod() if left.text is not None:
                return percent(left, right)
            case _:
                return arithmetic(node.op, left, right)

    def unary(self, node: ast.UnaryOp, depth: int) -> Value:
        value = self.value(node.operand, depth)
        if isinstance(node.op, ast.USub) and value.number is not None:
            return replace(value, options=(-value.number,))
        if isinstance(node.op, ast.Not) and value.flag is not None:
            return replace(value, options=(not value.flag,))
        return UNKNOWN

    def boolean(self, node: ast.BoolOp, depth: int) -> Value:
        values = [self.value(value, depth) for value in node.values]
        if isinstance(node.op, ast.Or):
            # `given or "fallback"`: the fallback is a default.
            if values[-1].options and not values[0].options:
                return values[-1].as_default()
            return next((value for value in values if value.options and value.value), UNKNOWN)
        return UNKNOWN

    def ternary(self, node: ast.IfExp, depth: int) -> Value:
        test = self.value(node.test, depth)
        if test.is_known and test.flag is not None:
            return self.value(node.body if test.flag else node.orelse, depth)
        return one_of([self.value(node.body, depth), self.value(node.orelse, depth)])

    def mapping(self, node: ast.Dict, depth: int) -> Value:
        if len(node.values) > MAX_ITEMS:
            return UNKNOWN
        entries = Entries()
        for key, value in zip(node.keys, node.values, strict=True):
            if key is None:
                self._merge(entries, self.value(value, depth))
                continue
            name = self.value(key, depth)
            if name.is_known and isinstance(name.value, (str, int, float, bool)):
                entries[name.value] = self.spanned(value, depth)
            else:
                entries.complete = False
        return known(entries)

    def sequence(self, node: ast.List | ast.Tuple, depth: int) -> Value:
        if len(node.elts) > MAX_ITEMS or any(isinstance(elt, ast.Starred) for elt in node.elts):
            return UNKNOWN
        return known(tuple(self.spanned(elt, depth) for elt in node.elts))

    def subscript(self, node: ast.Subscript, depth: int) -> Value:
        if self._module.qualified(node.value) == "os.environ":
            variable = self.value(node.slice, depth).text
            path = container_env.path_of(variable) if variable else None
            return default(path) if path else UNKNOWN
        if isinstance(node.value, ast.Attribute) and node.value.attr == "parents":
            return folder_above(self.value(node.value.value, depth), self.value(node.slice, depth))
        container, key = self.value(node.value, depth), self.value(node.slice, depth)
        if not key.is_known or len(container.options) != 1:
            return UNKNOWN
        if container.items is not None and isinstance(key.value, int):
            items = container.items
            return items[key.value] if -len(items) <= key.value < len(items) else UNKNOWN
        if container.entries is not None and key.value in container.entries:
            return container.entries[key.value]
        return UNKNOWN

    def call(self, node: ast.Call, depth: int) -> Value:
        name = self._module.qualified(node.func) or (node.func.id if isinstance(node.func, ast.Name) else "")
        if name == "dict" or name in NAMESPACES:
            return self._dictionary(node, depth)
        if name in ("os.path.join", "posixpath.join"):
            return self._path(node, depth)
        if name in OWN_FOLDERS:
            return own_folder([self.value(argument, depth) for argument in node.args])
        if name in SAME_AS_ARGUMENT and node.args:
            return self._converted(name, node, depth)
        if name in _ENVIRONMENT and node.args:
            return self._environment(node, depth)
        if (where := _DEFAULT_ARGUMENTS.get(name.rpartition(".")[2])) is not None:
            value = argument_node(node, *where)
            return self.value(value, depth).as_default() if value is not None else UNKNOWN
        return self._settings(node, name, depth)

    def _settings(self, node: ast.Call, name: str, depth: int) -> Value:
        """The settings that a call loads or creates, or what a function of the project returns."""
        module, evaluate_in = self._module, self._in(depth)
        found = loaded_settings(module, node, name, lambda part: self.value(part, depth))
        if found is None:
            found = parsed_dataclasses(module, node, name, evaluate_in)
        if found is None:
            found = instance_value(module, node, evaluate_in)
        if found is not None:
            return found
        if isinstance(node.func, ast.Attribute):
            found = self._method(node, node.func, depth)
        return found if found is not None and not found.is_unknown else self._returned(node, depth)

    def _method(self, node: ast.Call, function: ast.Attribute, depth: int) -> Value:
        receiver = self.value(function.value, depth)
        arguments = [self.value(argument, depth) for argument in node.args]
        named = {keyword.arg: self.value(keyword.value, depth) for keyword in node.keywords}
        return method_value(function.attr, receiver, arguments, named)

    def _in(self, depth: int) -> Callable[[Module, ast.expr], Value]:
        """Evaluates expressions of other modules, too."""
        return lambda module, node: (self if module is self._module else _Evaluator(module)).value(
            node, depth
        )

    def _returned(self, node: ast.Call, depth: int) -> Value:
        """What a function of the project returns to this call; unknown if that depends on more than its values."""
        target = called_function(self._module, node)
        if target is None or len(self._frames) >= MAX_FRAMES or target.node in self._frames:
            return UNKNOWN
        module = self._module
        arguments = target.bind(node, lambda part: rebased(self.value(part, depth), module, target.module))
        if arguments is None:
            return UNKNOWN
        inner = _Evaluator(target.module)
        inner._frames = {**self._frames, target.node: arguments}
        inner._progress = self._progress.inner()
        returned = one_of(inner.value(value, depth) for value in target.returned)
        return rebased(returned, target.module, module)

    def _bound(self, binding: Binding, depth: int) -> Value:
        if binding.kind == "parameter":
            given = self._frames.get(binding.scope, {}).get(binding.name)
            if given is not None:
                return given
            if (settings := self._passed_settings(binding, depth)) is not None:
                return settings
            # Callers may pass another value.
            return self.value(binding.value, depth).as_default() if binding.value is not None else UNKNOWN
        if binding.value is None:
            return UNKNOWN
        if binding.kind == "assign":
            value = self.value(binding.value, depth)
            if value.entries is None:
                return value
            return with_stored_keys(
                self._module, binding, value, lambda part: self.spanned(part, depth), self._progress
            )
        if binding.kind == "unpack" and binding.index is not None:
            items = self.value(binding.value, depth).items
            return items[binding.index] if items is not None and binding.index < len(items) else UNKNOWN
        return UNKNOWN

    def _passed_settings(self, parameter: Binding, depth: int) -> Value | None:
        """What a decorator passes for a parameter: the settings of Hydra, or the default of an option of click."""
        function = parameter.scope
        if not isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef)) or not function.decorator_list:
            return None
        first = function.args.args[0] if function.args.args else None
        if parameter.node is first and (found := hydra_settings(self._module, function)) is not None:
            return found
        written = option_default(self._module, parameter)
        return self.value(written, depth).as_default() if written is not None else None

    def _own_attribute(self, node: ast.Attribute, depth: int) -> Value:
        owner = self._module.enclosing(node, ast.ClassDef)
        if owner is None:
            return UNKNOWN
        stores = [
            other
            for other in self._module.tree.nodes(ast.Attribute)
            if other.attr == node.attr
            and isinstance(other.ctx, ast.Store)
            and self._module.tree.is_within(other, owner)
        ]
        if not stores and (own := self._module.names.bindings(owner).get(node.attr)):
            return one_of(self._bound(binding, depth) for binding in own)
        statement = self._module.parent(stores[0]) if len(stores) == 1 else None
        if isinstance(statement, ast.Assign) and len(statement.targets) == 1:
            return self.value(statement.value, depth)
        return UNKNOWN

    def _imported(self, qualified: str | None, depth: int) -> Value:
        """A constant of a module of the project, by its qualified name."""
        if not qualified:
            return UNKNOWN
        holder, _, constant = qualified.rpartition(".")
        other = self._module.loader.imported_module(self._module, holder) if holder else None
        if other is None or other is self._module:
            return UNKNOWN
        bindings = other.names.bindings(other.tree.root).get(constant, [])
        if len(bindings) != 1 or bindings[0].kind != "assign" or bindings[0].value is None:
            return UNKNOWN
        return rebased(_Evaluator(other).value(bindings[0].value, depth + 1), other, self._module)

    def _dictionary(self, node: ast.Call, depth: int) -> Value:
        entries = Entries()
        for argument in node.args:
            self._merge(entries, self.value(argument, depth))
        for keyword in node.keywords:
            if keyword.arg is None:
                self._merge(entries, self.value(keyword.value, depth))
            else:
                entries[keyword.arg] = self.spanned(keyword.value, depth)
        return known(entries)

    def _merge(self, entries: Entries, value: Value) -> None:
        if value.entries is None:
            entries.complete = False
            return
        entries.file = value.entries.file if not entries else None
        entries.update(value.entries)
        entries.complete = entries.complete and value.entries.complete

    def _path(self, node: ast.Call, depth: int) -> Value:
        if any(isinstance(argument, ast.Starred) for argument in node.args):
            return UNKNOWN
        return joined_path([self.value(argument, depth) for argument in node.args])

    def _converted(self, name: str, node: ast.Call, depth: int) -> Value:
        value = self.value(node.args[0], depth)
        if name in ("pathlib.Path", "pathlib.PurePath", "pathlib.PurePosixPath"):
            return joined_path([self.value(argument, depth) for argument in node.args])
        return converted(name, value)

    def _environment(self, node: ast.Call, depth: int) -> Value:
        variable = self.value(node.args[0], depth).text
        if variable and (path := container_env.path_of(variable)):
            return default(path)
        fallback = node.args[1] if len(node.args) > 1 else None
        if fallback is None:
            fallback = next((keyword.value for keyword in node.keywords if keyword.arg == "default"), None)
        return self.value(fallback, depth).as_default() if fallback is not None else UNKNOWN


_HANDLERS: dict[type[ast.expr], Callable[[_Evaluator, Any, int], Value]] = {
    ast.Constant: _Evaluator.constant,
    ast.Name: _Evaluator.name,
    ast.Attribute: _Evaluator.attribute,
    ast.JoinedStr: _Evaluator.joined,
    ast.BinOp: _Evaluator.binary,
    ast.UnaryOp: _Evaluator.unary,
    ast.BoolOp: _Evaluator.boolean,
    ast.IfExp: _Evaluator.ternary,
    ast.Dict: _Evaluator.mapping,
    ast.List: _Evaluator.sequence,
    ast.Tuple: _Evaluator.sequence,
    ast.Subscript: _Evaluator.subscript,
    ast.Call: _Evaluator.call,
}
