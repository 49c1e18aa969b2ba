"""The `add_argument` calls that belong to a parser: its own, those of its groups, parents and helper functions."""

from __future__ import annotations

import ast
from typing import NamedTuple

from gpuproof.linter.analysis.evaluation.frames import function_of_call
from gpuproof.linter.analysis.module import Module
from gpuproof.linter.analysis.syntax_index import FunctionNode, argument_node, callee_name

PARSERS = frozenset(["argparse.ArgumentParser", "configargparse.ArgumentParser", "configargparse.ArgParser"])
PARSE_METHODS = ("parse_args", "parse_known_args")
_GROUPS = ("add_argument_group", "add_mutually_exclusive_group")
_HARMLESS = frozenset(
    [
        *PARSE_METHODS,
        "add_argument",
        "print_help",
        "print_usage",
        "format_help",
        "set_defaults",
        "error",
        "exit",
        "get_default",
        "convert_arg_line_to_args",
    ]
)
_MAX_DEPTH = 6


class Declared(NamedTuple):
    """One `add_argument` call, and the module that contains it."""

    module: Module
    node: ast.Call


class ParserArguments:
    """The calls that declare the arguments of one parser.

    Attributes:
        found: the calls.
        complete: whether these are all, as far as the code of the project shows.
    """

    def __init__(self) -> None:
        self.found: list[Declared] = []
        self.complete = True
        self._seen: set[tuple[ast.AST | None, str]] = set()

    def add_parser(self, module: Module, node: ast.expr | None, depth: int = 0) -> None:
        """Add the arguments of the parser that an expression is."""
        if depth > _MAX_DEPTH or node is None:
            self.complete = False
            return
        if isinstance(node, (ast.Name, ast.Attribute)):
            self._add_holder(module, node, depth)
        created = module.origin(node) if not isinstance(node, ast.Attribute) else _stored(module, node)
        if not isinstance(created, ast.Call):
            if not _is_parameter(module, created):
                self.complete = False
            return
        if module.qualified(created.func) in PARSERS:
            self._add_parents(module, created, depth)
        elif (target := function_of_call(module, created)) is not None:
            self._add_returned(*target, depth)
            for passed in created.args:
                if isinstance(passed, ast.Call) and module.qualified(passed.func) in PARSERS:
                    self._add_parents(module, passed, depth)
        elif callee_name(created) not in _GROUPS:
            self.complete = False

    def _add_parents(self, module: Module, created: ast.Call, depth: int) -> None:
        parents = module.origin(argument_node(created, "parents"))
        if any(keyword.arg is None for keyword in created.keywords):
            self.complete = False
        if argument_node(created, "fromfile_prefix_chars") is not None:
            self.complete = False
        if isinstance(parents, (ast.List, ast.Tuple)):
            for parent in parents.elts:
                self.add_parser(module, parent, depth + 1)
        elif parents is not None:
            self.complete = False

    def _add_returned(self, module: Module, function: FunctionNode, depth: int) -> None:
        """Add the arguments of the parser that a function returns."""
        returned = [node.value for node in ast.walk(function) if isinstance(node, ast.Return)]
        if not returned:
            self.complete = False
        for value in returned:
            self.add_parser(module, value, depth + 1)

    def _add_holder(self, module: Module, holder: ast.Name | ast.Attribute, depth: int) -> None:
        """Add what the code does with a parser in a variable, a parameter or an attribute of `self`."""
        text = module.text(holder)
        scope = (
            module.names.scope(holder)
            if isinstance(holder, ast.Name)
            else module.enclosing(holder, ast.ClassDef)
        )
        if (scope, text) in self._seen:
            return
        self._seen.add((scope, text))
        for use in _uses(module, holder, scope):
            self._add_use(module, use, depth)

    def _add_use(self, module: Module, use: ast.expr, depth: int) -> None:
        parent = module.parent(use)
        around = module.parent(parent) if parent is not None else None
        match parent, around:
            case ast.Attribute(attr=method), ast.Call() as call if call.func is parent:
                if method == "add_argument":
                    self.found.append(Declared(module, call))
                elif method in _GROUPS:
                    self._add_group(module, call, depth)
                elif method not in _HARMLESS:
                    self.complete = False
            case ast.Call() as call, _ if use in call.args or call.func is not use:
                self._add_passed(module, call, use, depth)
            case ast.keyword() as keyword, ast.Call() as call:
                if keyword.arg != "parents":
                    self._add_passed(module, call, use, depth)
            case ((ast.Return() | ast.List() | ast.Tuple() | ast.Assign() | ast.Expr()), _):
                pass
            case ast.Attribute(attr="description" | "epilog" | "prog" | "usage"), _:
                pass
            case _:
                self.complete = False

    def _add_group(self, module: Module, call: ast.Call, depth: int) -> None:
        parent = module.parent(call)
        if isinstance(parent, ast.Attribute) and parent.attr == "add_argument":
            chained = module.parent(parent)
            if isinstance(chained, ast.Call):
                self.found.append(Declared(module, chained))
        elif isinstance(parent, ast.Assign) and isinstance(parent.targets[0], (ast.Name, ast.Attribute)):
            self._add_holder(module, parent.targets[0], depth + 1)
        elif isinstance(parent, ast.withitem) and isinstance(parent.optional_vars, ast.Name):
            self._add_holder(module, parent.optional_vars, depth + 1)
        else:
            self.complete = False

    def _add_passed(self, module: Module, call: ast.Call, passed: ast.expr, depth: int) -> None:
        """Add what a function does with a parser that it receives."""
        target = function_of_call(module, call)
        if target is None or depth > _MAX_DEPTH:
            self.complete = False
            return
        owner, function = target
        names = [parameter.arg for parameter in (*function.args.posonlyargs, *function.args.args)]
        keyword = next((item.arg for item in call.keywords if item.value is passed), None)
        place = call.args.index(passed) if passed in call.args else None
        name = keyword or (names[place] if place is not None and place < len(names) else None)
        uses = [
            node
            for node in owner.tree.uses_of(name or "")
            if owner.tree.is_within(node, function) and owner.names.scope(node) is function
        ]
        if name is None:
            self.complete = False
        key = (function, name or "")
        if key in self._seen:
            return
        self._seen.add(key)
        for use in uses:
            self._add_use(owner, use, depth + 1)


def parses_in(module: Module) -> list[ast.Call]:
    """The calls of `parse_args` and `parse_known_args` of a module."""
    return [
        call
        for call in module.nodes(ast.Call)
        if isinstance(call.func, ast.Attribute) and call.func.attr in PARSE_METHODS
    ]


def _uses(module: Module, holder: ast.Name | ast.Attribute, scope: ast.AST | None) -> list[ast.expr]:
    if isinstance(holder, ast.Name):
        binding = module.names.visible(holder.id, holder)
        return [
            use
            for use in module.tree.uses_of(holder.id)
            if (found := module.names.visible(use.id, use)) and binding and found[0] is binding[0]
        ]
    text = module.text(holder)
    return [
        node
        for node in module.nodes(ast.Attribute)
        if node.attr == holder.attr
        and isinstance(node.ctx, ast.Load)
        and module.text(node) == text
        and (scope is None or module.tree.is_within(node, scope))
    ]


def _stored(module: Module, node: ast.Attribute) -> ast.expr | None:
    """The only value that is assigned to an attribute of `self`."""
    text = module.text(node)
    values = [
        statement.value
        for statement in module.nodes(ast.Assign)
        if any(
            isinstance(target, ast.Attribute) and module.text(target) == text for target in statement.targets
        )
    ]
    return module.origin(values[0]) if len(values) == 1 else None


def _is_parameter(module: Module, node: ast.expr | None) -> bool:
    """Whether an expression is a parameter: a helper that receives the parser and returns it."""
    return isinstance(node, ast.Name) and any(
        binding.kind == "parameter" for binding in module.names.visible(node.id, node)
    )
