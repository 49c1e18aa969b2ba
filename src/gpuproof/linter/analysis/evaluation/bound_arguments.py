"""The values that a script's `argparse` parser returns for the command line of one job."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import replace

from gpuproof.linter.analysis.evaluation.argparse_model import Argument, CommandLine
from gpuproof.linter.analysis.module import Module
from gpuproof.linter.analysis.syntax_index import argument_node, callee_name
from gpuproof.linter.analysis.values import UNKNOWN, Value, known

_CONVERTED = {"int": int, "float": float, "str": str, "bool": bool}


def bind_arguments(module: Module, line: CommandLine, words: Sequence[str | None]) -> CommandLine:
    """The command line with the value of each argument in a job that runs the script with these words.

    The values stay defaults if the script does not simply parse its own command line: several parsers, `set_defaults`,
    or an explicit list for `parse_args`.
    """
    if not _parses_own_arguments(module, line):
        return line
    given = _given(line, words)
    changed = _assigned(module)
    return replace(
        line,
        arguments=tuple(
            argument
            if argument.dest in changed
            else replace(argument, value=given.get(argument.dest, _fallback(argument)))
            for argument in line.arguments
        ),
    )


def _parses_own_arguments(module: Module, line: CommandLine) -> bool:
    calls = module.nodes(ast.Call)
    parsers = [call for call in calls if module.qualified(call.func) == "argparse.ArgumentParser"]
    return (
        len(parsers) == 1
        and bool(line.parses)
        and all(_reads_argv(module, parse) for parse in line.parses)
        and not any(callee_name(call) in ("set_defaults", "add_subparsers") for call in calls)
    )


def _reads_argv(module: Module, parse: ast.Call) -> bool:
    words = argument_node(parse, "args", 0)
    return words is None or module.text(words).replace(" ", "") == "sys.argv[1:]"


def _given(line: CommandLine, words: Sequence[str | None]) -> dict[str, Value]:
    """The values that the words set, by name; unknown for actions and types that are not evaluated."""
    flags = {flag: option for option in line.arguments for flag in option.flags if flag.startswith("-")}
    found: dict[str, Value] = {}
    position = 0
    while position < len(words):
        word, position = words[position], position + 1
        if word is None:
            continue
        name, equals, value = word.partition("=")
        argument = _by_flag(flags, name)
        if argument is None:
            continue
        if argument.action in ("store_true", "store_false"):
            found[argument.dest] = known(argument.action == "store_true")
        elif argument.action != "store" or argument_node(argument.node, "nargs") is not None:
            found[argument.dest] = UNKNOWN
        elif equals:
            found[argument.dest] = _converted(argument, value)
        elif position < len(words):
            found[argument.dest] = _converted(argument, words[position])
            position += 1
    return found


def _by_flag(flags: dict[str, Argument], word: str) -> Argument | None:
    """The argument of a flag, which may be abbreviated to an unambiguous prefix."""
    if word in flags or not word.startswith("--"):
        return flags.get(word)
    near = [item for flag, item in flags.items() if flag.startswith(word)]
    return near[0] if len(near) == 1 else None


def _converted(argument: Argument, word: str | None) -> Value:
    """The value of a word, which is None if it is unknown."""
    convert = _CONVERTED.get(argument.type or "str")
    if word is None:
        return UNKNOWN
    try:
        return known(convert(word)) if convert is not None else UNKNOWN
    except ValueError:
        return UNKNOWN


def _fallback(argument: Argument) -> Value:
    """The value of an argument that is not passed."""
    declared = argument.declared
    if declared.is_absent:
        is_flag = argument.flags[0].startswith("-") and argument.action is not None
        return known(None) if is_flag else UNKNOWN
    if declared.is_known and declared.text is not None:
        return replace(_converted(argument, declared.text), span=declared.span)
    return declared


def _assigned(module: Module) -> set[str]:
    """Names that the script assigns on some object, which may be the parsed arguments: `args.lr = 0.1`."""
    stored = {node.attr for node in module.nodes(ast.Attribute) if isinstance(node.ctx, ast.Store)}
    for call in module.nodes(ast.Call):
        if callee_name(call) in ("setattr", "vars", "update"):
            stored |= {
                node.value
                for node in ast.walk(call)
                if isinstance(node, ast.Constant) and isinstance(node.value, str)
            }
    return stored
