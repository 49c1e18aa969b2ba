"""Which hyperparameters the code of a script reads: from its command line, from variables or from a file."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from gpuproof.linter.analysis.call import all_calls, calls_named
from gpuproof.linter.analysis.evaluation.evaluate import command_line, evaluate
from gpuproof.linter.analysis.flow.value_flow import follow_object
from gpuproof.linter.analysis.local_imports import local_modules
from gpuproof.linter.analysis.module import Module
from gpuproof.linter.analysis.usage import find_uses, is_message, uses
from gpuproof.linter.analysis.values import Value
from gpuproof.linter.jobs.arguments import flag_of

_READERS = re.compile(
    r"""
    ^(click|typer|fire|absl|docopt|getopt|tyro|hydra|omegaconf|jsonargparse|simple_parsing|plac|tap)(\.|$)
    | ^tensorflow\.(compat\.v1\.)?(app\.)?flags\b | (^|\.)(\w*CLI|cli)$
    """,
    re.VERBOSE,
)
"""Command-line libraries that read the command line by themselves."""
_PARSERS = re.compile(r"^(argparse|optparse|configargparse)(\.|$)|(^|\.)(\w*ArgumentParser|\w*ArgParser)$")
"""Parsers, which read nothing until one of their methods is called."""
_PARSES = re.compile(r"(^|\.)parse(_\w+)?$")
_HELPERS = re.compile(
    r"^(sagemaker_containers|sagemaker_training)(\.|$)|(^|\.)hyperparameters$|^gpuproof\.runtime\b"
)
"""Functions that return the hyperparameters without the command line."""
_ARGV = re.compile(r"^sys\.(argv|orig_argv)$")
_TEXTS = re.compile(
    r"^SM_(HPS|USER_ARGS|TRAINING_ENV|INPUT_CONFIG_DIR|HP_)$|hyperparameters\.json|/opt/ml/input/config|^hyperparameters$"
)
"""Variables and files with all hyperparameters, and the start of the names of the variables."""
_VARIABLE = re.compile(r"\bSM_HP_(\w+)")
_WHOLE = re.compile(r"(^|\.)asdict$|^(vars|setattr|locals|globals|exec|eval)$")
"""Calls that may read every attribute of an object."""


def reads_command_line_anyhow(script: Module) -> bool:
    """Whether code of the script or its modules may read the command line."""
    return any(_reads_arguments(module) for module in local_modules(script))


def reads_elsewhere(script: Module) -> bool:
    """Whether code of the script or its modules may read any hyperparameter, other than from the command line."""
    for module in local_modules(script):
        if uses(module, _HELPERS, "call", "name") or _reads_environment(module):
            return True
        if uses(module, _TEXTS, "string"):
            return True
    return False


def variables_read(script: Module) -> set[str]:
    """The hyperparameters that the script names as variables, such as `EPOCHS` of `SM_HP_EPOCHS`."""
    return {
        name
        for module in local_modules(script)
        for use in find_uses(module, "string")
        for name in _VARIABLE.findall(use.text)
    }


def uses_rest(script: Module) -> bool:
    """Whether code may use the arguments that `parse_known_args()` returns as unknown."""
    for module in local_modules(script):
        for call in calls_named(module, "parse_known_args"):
            parent = module.parent(call.node)
            if isinstance(parent, ast.Subscript) and evaluate(module, parent.slice).value == 0:
                continue
            target = parent.targets[0] if isinstance(parent, ast.Assign) else None
            if not isinstance(target, ast.Tuple) or len(target.elts) != 2:
                return True
            rest = target.elts[1]
            if not isinstance(rest, ast.Name) or any(
                not is_message(module, use) for use in module.tree.uses_of(rest.id) if rest.id != "_"
            ):
                return True
    return False


def parsed_in_vain(script: Module, names: list[str]) -> list[str]:
    """Those of the hyperparameters that the script's parser declares, and that no code reads from its result."""
    modules = local_modules(script)
    line = command_line(script)
    arguments = {name: line.by_flag(flag_of(name)) for name in names}
    declared = {name: argument.dest for name, argument in arguments.items() if argument is not None}
    if not declared or not line.parses or _goes_elsewhere(script, modules, line.parses):
        return []
    read = {word for module in modules for word in _words_read(module)}
    return [name for name, dest in declared.items() if dest not in read]


def _reads_arguments(module: Module) -> bool:
    if uses(module, _READERS, "call", "name"):
        return True
    if uses(module, _PARSERS, "call", "name") and (
        uses(module, _PARSES, "call") or calls_named(module, "parse_args", "parse_known_args")
    ):
        return True
    for use in find_uses(module, "name"):
        if not _ARGV.match(use.text) or is_message(module, use.node):
            continue
        parent = module.parent(use.node)
        if not (isinstance(parent, ast.Subscript) and evaluate(module, parent.slice).value == 0):
            return True
    return False


def _goes_elsewhere(script: Module, modules: list[Module], parses: tuple[ast.Call, ...]) -> bool:
    """Whether the parsed arguments may be read as a whole: passed on, copied, or under names that are not written out."""
    for module in modules:
        if uses(module, _WHOLE, "call") or any(
            node.attr == "__dict__" for node in module.nodes(ast.Attribute)
        ):
            return True
        for call in calls_named(module, "getattr", "hasattr"):
            if call.argument(position=1).text is None:
                return True
        if any(
            call.argument("namespace", 1).is_absent is False for call in calls_named(module, "parse_args")
        ):
            return True
    arrivals = [place for parse in parses for place in follow_object(modules, script, parse)]
    return any(place.call is None or not is_message(place.module, place.node) for place in arrivals)


def _words_read(module: Module) -> Iterator[str]:
    """Names of attributes and entries that code reads, other than to print them."""
    for node in module.nodes(ast.Attribute):
        if isinstance(node.ctx, ast.Load) and not is_message(module, node):
            yield node.attr
    for node in module.nodes(ast.Constant):
        if isinstance(node.value, str) and isinstance(module.parent(node), (ast.Subscript, ast.Call)):
            call = module.parent(node)
            if not (isinstance(call, ast.Call) and call in _declarations(module)) and not is_message(
                module, node
            ):
                yield node.value


def _declarations(module: Module) -> set[ast.Call]:
    return module.loader.cached(
        "add_argument calls", module.unit, lambda: {call.node for call in calls_named(module, "add_argument")}
    )


def _reads_environment(module: Module) -> bool:
    """Whether the module reads environment variables whose names it does not write out."""
    for node in module.nodes(ast.Attribute):
        if module.qualified(node) != "os.environ" or is_message(module, node):
            continue
        parent = module.parent(node)
        match parent:
            case ast.Subscript(slice=key, ctx=context):
                if isinstance(context, ast.Load) and _may_be_any(evaluate(module, key)):
                    return True
            case ast.Attribute(attr="get" | "pop" | "setdefault" | "update"):
                pass
            case ast.Compare(left=left) if evaluate(module, left).text is not None:
                pass
            case _:
                return True
    for call in all_calls(module):
        by_name = call.name in ("os.getenv", "os.environ.get", "os.environ.pop")
        if by_name and _may_be_any(call.argument("key", 0)):
            return True
    return False


def _may_be_any(name: Value) -> bool:
    """Whether a variable's name is unknown, and may begin as those of hyperparameters do."""
    return name.text is None and ("SM_HP".startswith(name.prefix[:5]) or name.prefix.startswith("SM_HP"))
