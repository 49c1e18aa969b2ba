"""The command line of a script, as its `argparse` parser declares it."""

from __future__ import annotations

import ast
from collections.abc import Callable
from dataclasses import dataclass, replace

from gpuproof.linter.analysis.evaluation.parser_arguments import ParserArguments, parses_in
from gpuproof.linter.analysis.module import Module
from gpuproof.linter.analysis.syntax_index import argument_node, callee_name
from gpuproof.linter.analysis.values import ABSENT, UNKNOWN, Entries, Value, known


@dataclass(frozen=True, eq=False)
class Argument:
    """One declared argument.

    Args:
        flags: as declared: `("-b", "--batch-size")`; for a positional argument, its name.
        default: its default; absent if none is declared.
        declared: the default as it is written: known where nothing but the command line can override it.
        value: its value in the script: the default, or the value in the job that is about to run.
        action: `store`, `store_true`, ...; None if it is unknown.
        type: the qualified or bare name of its type: `int`, `bool`; None without a type.
        node: the `add_argument` call.
        module: the module that declares it.
    """

    flags: tuple[str, ...]
    dest: str
    default: Value
    declared: Value
    value: Value
    action: str | None
    type: str | None
    node: ast.Call
    module: Module

    @property
    def is_required(self) -> bool:
        """Whether the parser fails without it: `required=True`, or a positional argument that takes at least one value."""
        if self.flags[0].startswith("-"):
            written = argument_node(self.node, "required")
            return isinstance(written, ast.Constant) and written.value is True
        count = argument_node(self.node, "nargs")
        is_open = count is not None and not (
            isinstance(count, ast.Constant) and (count.value == "+" or isinstance(count.value, int))
        )
        return not is_open


@dataclass(frozen=True, eq=False)
class CommandLine:
    """The command line of a script.

    Args:
        strict: whether an undeclared argument ends the script: it calls `parse_args`, never `parse_known_args`.
        complete: whether these are all arguments: every flag is a literal, and no other code adds arguments.
        parses: calls of `parse_args` and `parse_known_args`.
    """

    arguments: tuple[Argument, ...]
    strict: bool
    complete: bool
    parses: tuple[ast.Call, ...]

    def by_dest(self, dest: str) -> Argument | None:
        """The argument of `args.dest`; None if there is none, or more than one."""
        found = [argument for argument in self.arguments if argument.dest == dest]
        return found[0] if len(found) == 1 else None

    def by_flag(self, flag: str) -> Argument | None:
        """The argument that `--flag` sets."""
        return next((argument for argument in self.arguments if flag in argument.flags), None)


Evaluate = Callable[[Module, ast.expr | None], Value]


def read_command_line(module: Module, evaluate: Evaluate) -> CommandLine:
    """The command line that a module's `argparse` parser declares; without a parser, it is empty."""
    calls = module.nodes(ast.Call)
    parses = parses_in(module)
    declared = [_argument(module, call, evaluate) for call in calls if callee_name(call) == "add_argument"]
    changed = _set_defaults(module, calls, evaluate)
    declared = [argument and _with_default(argument, changed) for argument in declared]
    reached = ParserArguments()
    for parse in parses:
        reached.add_parser(module, parse.func.value if isinstance(parse.func, ast.Attribute) else None)
    # Arguments that are declared elsewhere in the project are arguments of this script, too.
    elsewhere = [item for item in reached.found if item.module is not module]
    others = [_argument(item.module, item.node, evaluate) for item in elsewhere]
    declared += [argument and _with_default(argument, changed) for argument in others]
    own = {item.node for item in reached.found}
    is_complete = reached.complete and all(
        call in own for call in calls if callee_name(call) == "add_argument"
    )
    return CommandLine(
        arguments=tuple(item for item in declared if item is not None),
        strict=bool(parses) and all(callee_name(parse) == "parse_args" for parse in parses),
        complete=bool(parses) and is_complete and None not in declared,
        parses=tuple(parses),
    )


def is_parsed_arguments(module: Module, node: ast.expr) -> bool:
    """Whether an expression is the result of `parse_args`, by its binding or by the name of a parameter."""
    if isinstance(node, ast.Call):
        return isinstance(node.func, ast.Attribute) and node.func.attr == "parse_args"
    if not isinstance(node, ast.Name):
        return False
    for binding in module.reaching(node):
        value = binding.value
        if isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute):
            if binding.kind == "assign" and value.func.attr == "parse_args":
                return True
            if binding.kind == "unpack" and value.func.attr == "parse_known_args" and binding.index == 0:
                return True
        if isinstance(value, ast.Call) and isinstance(value.func, ast.Name) and binding.kind == "assign":
            helper = module.functions.get(value.func.id)
            if helper is not None and _returns_arguments(module, helper):
                return True
        if binding.kind == "parameter" and binding.name in _PARAMETERS:
            return True
    return False


_PARAMETERS = ("args", "opt", "opts", "flags", "FLAGS", "arguments", "options", "hparams", "config", "cfg")
"""Names of parameters that usually hold the parsed arguments in a file with one parser."""


def _returns_arguments(module: Module, helper: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    returns = [
        node.value for node in ast.walk(helper) if isinstance(node, ast.Return) and node.value is not None
    ]
    return bool(returns) and all(
        is_parsed_arguments(module, value)
        or (isinstance(value, ast.Tuple) and bool(value.elts) and is_parsed_arguments(module, value.elts[0]))
        for value in returns
    )


def _argument(module: Module, node: ast.Call, evaluate: Evaluate) -> Argument | None:
    def value(keyword: str) -> Value:
        return evaluate(module, argument_node(node, keyword))

    flags = [text for argument in node.args if (text := evaluate(module, argument).text) is not None]
    if not flags or len(flags) != len(node.args) or any(keyword.arg is None for keyword in node.keywords):
        return None
    dest = value("dest").text
    if dest is None:
        long = [flag for flag in flags if flag.startswith("--")] or flags
        dest = long[0].lstrip("-").replace("-", "_")
    action, default = value("action"), value("default")
    if default.is_absent and action.text in ("store_true", "store_false"):
        default = known(action.text == "store_false", module.span(node))
    kind = argument_node(node, "type")
    return Argument(
        flags=tuple(flags),
        dest=dest,
        default=default.as_default() if not default.is_absent else ABSENT,
        declared=default,
        value=default.as_default() if not default.is_absent else ABSENT,
        action=action.text if action.options else ("store" if action.is_absent else None),
        type=module.qualified(kind) or (kind.id if isinstance(kind, ast.Name) else None),
        node=node,
        module=module,
    )


def _set_defaults(module: Module, calls: list[ast.Call], evaluate: Evaluate) -> Value:
    """The defaults that `parser.set_defaults(**settings)` sets, incomplete if it may set others."""
    entries = Entries()
    for call in calls:
        match call:
            case ast.Call(func=ast.Attribute(attr="set_defaults"), keywords=keywords):
                pairs = [(keyword.arg, evaluate(module, keyword.value)) for keyword in keywords]
            case ast.Call(func=ast.Attribute(attr="update", value=ast.Call(func=ast.Name(id="vars")))):
                pairs = [(None, evaluate(module, argument_node(call, position=0)))]
            case ast.Call(func=ast.Name(id="setattr"), args=[target, name, value]):
                if not is_parsed_arguments(module, target) or isinstance(name, ast.Constant):
                    continue
                pairs = [(None, UNKNOWN)]
            case _:
                continue
        for name, value in pairs:
            if name is not None:
                entries[name] = value
            elif value.entries is not None:
                entries.update(value.entries)
            else:
                entries.complete = False
    return known(entries)


def _with_default(argument: Argument, changed: Value) -> Argument:
    """An argument with the default that code sets after its declaration."""
    found = changed.at(argument.dest)
    if found.is_absent:
        return argument
    value = found.as_default() if found.options else UNKNOWN
    return replace(argument, default=value, declared=value, value=value)
