"""The contract between a training or processing job and its script: command line, channels and folders."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from gpuproof.linter.analysis.call import Call, calls_named
from gpuproof.linter.analysis.evaluation.argparse_model import CommandLine
from gpuproof.linter.analysis.evaluation.evaluate import command_line, evaluate
from gpuproof.linter.analysis.local_imports import unseen_imports
from gpuproof.linter.analysis.module import Module
from gpuproof.linter.analysis.usage import uses
from gpuproof.linter.analysis.values import Value
from gpuproof.linter.jobs.definition import JobDefinition
from gpuproof.linter.project import Project

_NO_COMMAND_LINE = frozenset(
    [
        "transformers",
        "datasets",
        "evaluate",
        "peft",
        "accelerate",
        "diffusers",
        "lightgbm",
        "xgboost",
        "catboost",
        "statsmodels",
        "mxnet",
        "ultralytics",
        "segmentation_models_pytorch",
        "sagemaker",
    ]
)
"""Libraries that do not read the command line or the environment of a script."""
_REMAINDER = re.compile(r"(^|\.)REMAINDER$")


def training_jobs(module: Module, project: Project) -> list[JobDefinition]:
    """The SageMaker training jobs with a module as entry point."""
    return [
        job
        for job in project.jobs_running(module)
        if job.kind == "training" and job.has_contract and job.script is module
    ]


def reads_command_line(script: Module, *, positionals: bool = False) -> bool:
    """Whether every flag that a script's parser takes is known, and it parses the real command line.

    Args:
        positionals: whether the parser may have positional arguments.
    """
    line = command_line(script)
    if not line.parses or not line.complete:
        return False
    if calls_named(script, "add_subparsers") or uses(script, _REMAINDER, "name"):
        return False
    return (positionals or not has_positionals(line)) and reads_argv(script)


def reads_argv(script: Module) -> bool:
    """Whether a script parses the real command line, and not a list that it passes itself."""
    parses = command_line(script).parses
    return bool(parses) and all(
        not parse.keywords
        and (not parse.args or script.text(parse.args[0]).replace(" ", "") == "sys.argv[1:]")
        for parse in parses
    )


def has_positionals(line: CommandLine) -> bool:
    """Whether the parser has positional arguments."""
    return any(not argument.flags[0].startswith("-") for argument in line.arguments)


def hidden_imports(script: Module) -> list[str]:
    """Imports that may read the command line, environment or data of the script."""
    return [import_ for import_ in unseen_imports(script) if import_ not in _NO_COMMAND_LINE]


def path_literals(module: Module, root: str) -> Iterator[tuple[ast.expr, Value]]:
    """The largest expressions whose values are paths below a root: written as such, or `BASE / "data"`."""
    seen: set[ast.expr] = set()
    for node in module.nodes(ast.Constant, ast.BinOp, ast.JoinedStr, ast.Call):
        if not _starts_path(node, root):
            continue
        whole: ast.expr = node
        parent = module.parent(whole)
        while isinstance(parent, (ast.BinOp, ast.JoinedStr)) or _joins(parent, whole):
            if not isinstance(parent, ast.expr):
                break
            whole, parent = parent, module.parent(parent)
        if isinstance(parent, ast.Expr) or whole in seen:
            continue  # a docstring, or an unused text
        seen.add(whole)
        value = evaluate(module, whole)
        if value.text is not None and value.text.startswith(root):
            yield whole, value


def _starts_path(node: ast.expr, root: str) -> bool:
    """Whether an expression may be the start of a path: a text below the root, or a name that is continued."""
    match node:
        case ast.Constant(value=str(text)):
            return text.startswith(root)
        case ast.BinOp(op=ast.Div(), left=ast.Name()):
            return True
        case ast.JoinedStr(values=[ast.FormattedValue(value=ast.Name()), ast.Constant(value=str(rest)), *_]):
            return rest.startswith("/")
        case ast.Call(func=ast.Attribute(attr="join"), args=[ast.Name(), _, *_]):
            return True
        case _:
            return False


def keras_saves(script: Module) -> list[tuple[Call, Value]]:
    """The calls of a script that save TensorFlow models, with their paths."""
    found: list[tuple[Call, Value]] = []
    if not script.imports("tensorflow", "keras"):
        return found
    for call in calls_named(script, "save", "export", "save_model", "export_saved_model"):
        of_library = call.name is not None and call.name.startswith(("tensorflow.", "keras."))
        if call.receiver is None or (call.name is not None and not of_library):
            continue
        found.append((call, call.argument("filepath", 1 if of_library else 0)))
    return found


def _joins(parent: ast.AST | None, child: ast.expr) -> bool:
    if not isinstance(parent, ast.Call) or child not in parent.args:
        return False
    function = parent.func
    name = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
    return name in ("join", "Path", "PurePath", "PosixPath", "str")
