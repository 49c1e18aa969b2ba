"""The arguments that a script accepts on its command line: argparse, click, typer, Fire and dataclass parsers."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass

from gpuproof.linter.analysis.call import Call, all_calls, calls_named, calls_to
from gpuproof.linter.analysis.evaluation.argparse_model import Argument, CommandLine
from gpuproof.linter.analysis.evaluation.dataclass_values import (
    dataclass_fields,
    is_required,
    own_class,
    parser_classes,
)
from gpuproof.linter.analysis.evaluation.evaluate import command_line, evaluate
from gpuproof.linter.analysis.evaluation.frames import function_of_call
from gpuproof.linter.analysis.module import Module
from gpuproof.linter.analysis.syntax_index import FunctionNode, callee_name
from gpuproof.linter.analysis.usage import uses
from gpuproof.linter.knowledge.contract.script_contract import reads_command_line
from gpuproof.linter.knowledge.distribution.ranks import always_runs

_ARGV = re.compile(r"^sys\.argv$")


@dataclass(frozen=True, eq=False)
class ScriptArgument:
    """One argument of a script.

    Args:
        names: its flags: `("-b", "--batch-size")`; for a positional argument, its name.
        declared: the argument of argparse that it is; None for other libraries.
    """

    names: tuple[str, ...]
    required: bool
    declared: Argument | None = None

    @property
    def is_positional(self) -> bool:
        """Whether it has no flag."""
        return not self.names[0].startswith("-")


@dataclass(frozen=True, eq=False)
class ScriptArguments:
    """What a script accepts on its command line.

    Args:
        library: `argparse`, `click`, `typer`, `fire` or `HfArgumentParser`.
        node: the call in the script that parses the command line, or starts that.
        strict: whether an argument that it does not know ends the script.
        complete: whether these are all of its arguments.
    """

    library: str
    node: ast.Call
    arguments: tuple[ScriptArgument, ...]
    strict: bool
    complete: bool

    def find(self, flag: str) -> ScriptArgument | None:
        """The argument that a flag sets, by the rules of the library."""
        if self.library == "fire":
            flag = flag.replace("-", "_").replace("__", "--", 1)
        exact = next((argument for argument in self.arguments if flag in argument.names), None)
        if exact is not None or self.library in ("click", "typer", "fire") or not flag.startswith("--"):
            return exact
        near = [
            argument for argument in self.arguments if any(name.startswith(flag) for name in argument.names)
        ]
        return near[0] if len(near) == 1 else None


def script_arguments(script: Module) -> ScriptArguments | None:
    """The arguments of a script that certainly parses its command line; None if it is not known how."""
    return script.derived(_script_arguments)


def _script_arguments(script: Module) -> ScriptArguments | None:
    for read in (_of_argparse, _of_dataclasses, _of_click, _of_typer, _of_fire):
        found = read(script)
        if found is not None:
            return found if _runs_with_flags(script, found.node) else None
    return None


def _runs_with_flags(script: Module, node: ast.Call) -> bool:
    """Whether a call runs whenever the script gets flags: always, or unless `sys.argv` has only a settings file."""
    for ancestor in script.tree.ancestors(node):
        if isinstance(ancestor, ast.If) and uses(script, _ARGV, "name", "attribute", within=ancestor.test):
            in_else = any(script.tree.is_within(node, child) for child in ancestor.orelse)
            return in_else and always_runs(script, ancestor)
    return always_runs(script, node)


def _of_argparse(script: Module) -> ScriptArguments | None:
    line = command_line(script)
    if line.parses:
        return _with_line(line, line.parses[0], script) if len(line.parses) == 1 else None
    for call in all_calls(script):
        target = function_of_call(script, call.node)
        if target is None or target[0] is script:
            continue
        module, function = target
        line = command_line(module)
        if len(line.parses) == 1 and module.function_of(line.parses[0]) is function:
            return _with_line(line, call.node, module)
    return None


def _with_line(line: CommandLine, node: ast.Call, module: Module) -> ScriptArguments | None:
    complete = line.complete and reads_command_line(module, positionals=True)
    found = [ScriptArgument(item.flags, item.is_required, item) for item in line.arguments]
    return ScriptArguments("argparse", node, tuple(found), line.strict, complete)


def _of_dataclasses(script: Module) -> ScriptArguments | None:
    parses = calls_named(script, "parse_args_into_dataclasses")
    if len(parses) != 1:
        return None
    parse = parses[0]
    if parse.node.args or not set(parse.keywords) <= {"return_remaining_strings"}:
        return None
    classes = list(parser_classes(script, parse.node))
    found: list[ScriptArgument] = []
    complete = bool(classes)
    for written in classes:
        owner = own_class(script, written)
        fields = dataclass_fields(*owner) if owner is not None else None
        if fields is None:
            complete = False
            continue
        for name, field in fields.items():
            flags = (f"--{name}", f"--{name.replace('_', '-')}") if "_" in name else (f"--{name}",)
            found.append(ScriptArgument(flags, is_required(field.node)))
    strict = "return_remaining_strings" not in parse.keywords
    return ScriptArguments("HfArgumentParser", parse.node, tuple(found), strict, complete)


def _of_click(script: Module) -> ScriptArguments | None:
    for call in all_calls(script):
        function = _started(script, call)
        if function is None or call.node.args or call.node.keywords:
            continue
        decorators = [Call(node, script) for node in function.decorator_list if isinstance(node, ast.Call)]
        commands = [item for item in decorators if item.name == "click.command"]
        if len(commands) != 1 or len(decorators) != len(function.decorator_list):
            continue
        if not set(commands[0].keywords) <= {"name", "help", "short_help", "no_args_is_help"}:
            return None
        found: list[ScriptArgument] = []
        complete = True
        for item in decorators:
            if item.name in ("click.option", "click.argument"):
                argument = _click_argument(item)
                found += [argument] if argument is not None else []
                complete = complete and argument is not None
            elif item is not commands[0] and item.name != "click.version_option":
                complete = False
        return ScriptArguments("click", call.node, tuple(found), True, complete)
    return None


def _click_argument(item: Call) -> ScriptArgument | None:
    words = [evaluate(item.module, node).text for node in item.node.args]
    if not words or None in words or item.is_open:
        return None
    names = tuple(
        part for word in words if word is not None for part in word.split("/") if word.startswith("-")
    )
    required = item.argument("required")
    if item.method == "argument":
        is_needed = required.flag is not False and item.argument("default").is_absent
        return ScriptArgument((str(words[0]),), is_needed and item.argument("nargs").is_absent)
    is_needed = required.is_known and required.flag is True and item.argument("default").is_absent
    # A variable may set it, or a prompt ask for it.
    is_given = any(not item.argument(name).is_absent for name in ("envvar", "prompt"))
    return ScriptArgument(names, is_needed and not is_given) if names else None


def _of_typer(script: Module) -> ScriptArguments | None:
    for call in calls_to(script, "typer.run"):
        function = script.functions.get(getattr(call.expression(None, 0), "id", ""))
        return _typer_arguments(script, function, call.node) if function is not None else None
    for call in all_calls(script):
        made = script.origin(call.node.func) if isinstance(call.node.func, ast.Name) else None
        if not isinstance(made, ast.Call) or script.qualified(made.func) != "typer.Typer":
            continue
        own = [
            function
            for function in script.functions.values()
            if any(
                isinstance(node, ast.Call) and callee_name(node) == "command"
                for node in function.decorator_list
            )
        ]
        # With several commands, the first word chooses one.
        if len(own) != 1 or made.keywords or calls_named(script, "add_typer", "callback"):
            return None
        return _typer_arguments(script, own[0], call.node)
    return None


def _typer_arguments(script: Module, function: FunctionNode, node: ast.Call) -> ScriptArguments:
    found: list[ScriptArgument] = []
    complete = True
    for name, default, annotation in _parameters(function):
        flag = f"--{name.replace('_', '-')}"
        if (option := _annotated(annotation)) is not None:
            words = [evaluate(script, item).text for item in option.args]
            if callee_name(option) == "Argument" or None in words:
                complete = False
                continue
            names = tuple(word for word in words if word is not None) or (flag,)
            is_given = any(keyword.arg in ("envvar", "prompt") for keyword in option.keywords)
            found.append(ScriptArgument(names, default is None and not is_given))
            continue
        if default is None:
            found.append(ScriptArgument((name,), True))
        elif isinstance(default, ast.Call) and callee_name(default) in ("Option", "Argument"):
            option = Call(default, script)
            words = [evaluate(script, item).text for item in default.args[1:]]
            if option.method == "Argument" or None in words:
                complete = False
                continue
            first = option.expression("default", 0)
            is_needed = first is None or (isinstance(first, ast.Constant) and first.value is Ellipsis)
            is_given = any(not option.argument(key).is_absent for key in ("envvar", "prompt"))
            names = tuple(word for word in words if word is not None) or (flag,)
            found.append(ScriptArgument(names, is_needed and not is_given))
        else:
            is_switch = isinstance(default, ast.Constant) and isinstance(default.value, bool)
            found.append(ScriptArgument((flag, *([f"--no-{flag[2:]}"] if is_switch else [])), False))
    return ScriptArguments("typer", node, tuple(found), True, complete)


def _annotated(annotation: ast.expr | None) -> ast.Call | None:
    """The `typer.Option(...)` in `Annotated[int, typer.Option(...)]`."""
    match annotation:
        case ast.Subscript(slice=ast.Tuple(elts=[_, *rest])):
            calls = [item for item in rest if isinstance(item, ast.Call)]
            return next((call for call in calls if callee_name(call) in ("Option", "Argument")), None)
        case _:
            return None


def _of_fire(script: Module) -> ScriptArguments | None:
    calls = calls_to(script, "fire.Fire")
    if len(calls) != 1:
        return None
    written = calls[0].expression("component", 0)
    function = script.functions.get(getattr(written, "id", ""))
    if function is None or function.decorator_list:
        return None
    names = [ScriptArgument((f"--{name}",), default is None) for name, default, _ in _parameters(function)]
    complete = function.args.kwarg is None and function.args.vararg is None
    return ScriptArguments("fire", calls[0].node, tuple(names), True, complete)


def _parameters(function: FunctionNode) -> Iterator[tuple[str, ast.expr | None, ast.expr | None]]:
    arguments = function.args
    positional = [*arguments.posonlyargs, *arguments.args]
    missing: list[ast.expr | None] = [None] * (len(positional) - len(arguments.defaults))
    for parameter, default in zip(positional, [*missing, *arguments.defaults], strict=True):
        yield parameter.arg, default, parameter.annotation
    for parameter, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True):
        yield parameter.arg, default, parameter.annotation


def _started(script: Module, call: Call) -> FunctionNode | None:
    """The function of the script that a call of its name runs."""
    return script.functions.get(call.node.func.id) if isinstance(call.node.func, ast.Name) else None
