"""Finds functions that the SageMaker SDK runs as jobs: `@remote`, `RemoteExecutor.submit`, and `@step` of pipelines."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from gpuproof.linter.analysis.call import Call, calls_named, origin_call
from gpuproof.linter.analysis.module import Module
from gpuproof.linter.analysis.syntax_index import FunctionNode
from gpuproof.linter.analysis.values import ABSENT, Entries, Value, default, known
from gpuproof.linter.jobs.definition import JobDefinition
from gpuproof.linter.source.span import Span, Unit

_DECORATOR = re.compile(r"^sagemaker\..*\b(remote_function\b.*\.remote|function_step\.step)$")
_EXECUTOR = re.compile(r"^sagemaker\..*\bremote_function\b.*\.RemoteExecutor$")
_SETTINGS = ("SageMaker", "PythonSDK", "Modules", "RemoteFunction")
"""Where config.yaml has the defaults. Source: sagemaker/config/config_schema.py of sagemaker 2.257.7."""


def jobs(module: Module) -> Iterator[JobDefinition]:
    """The functions of a module that run as jobs; the script of each is what runs there."""
    for function in module.nodes(ast.FunctionDef, ast.AsyncFunctionDef):
        for decorator in function.decorator_list:
            called = decorator.func if isinstance(decorator, ast.Call) else decorator
            name = module.qualified(called)
            if name is not None and _DECORATOR.match(name):
                yield _job(module, name, module.span(decorator), origin_call(module, decorator), function)
    for call in calls_named(module, "submit", "map"):
        executor = origin_call(module, call.receiver)
        target = call.expression(None, 0)
        if executor is None or not _EXECUTOR.match(executor.name or "") or not isinstance(target, ast.Name):
            continue
        function = module.functions.get(target.id)
        if function is not None:
            yield _job(module, executor.name or "", executor.span, executor, function)


def remote_text(module: Module, function: FunctionNode) -> str:
    """The text of a module as a remote function sees it: imports, definitions and constants, and none of its statements.

    Lines keep their numbers, and the last one calls the function. The SDK pickles the function and what it refers to; the rest runs only on the client.
    """
    lines = module.unit.source.split("\n")
    used = _used(module, function)
    for statement in module.tree.root.body:
        decorators = getattr(statement, "decorator_list", ())
        first = min([statement.lineno, *(node.lineno for node in decorators)])
        end = statement.lineno - 1 if _names(statement) & used else statement.end_lineno or first
        for number in range(first - 1, end):
            lines[number] = ""
    return "\n".join([*lines, f"{function.name}()"])


def _used(module: Module, function: FunctionNode) -> set[str]:
    """The global names that a function uses, directly or not, and its own."""
    definitions = {name: statement for statement in module.tree.root.body for name in _names(statement)}
    used, pending = {function.name}, [function.name]
    while pending:
        statement = definitions.get(pending.pop())
        for node in _code(statement):
            if isinstance(node, ast.Name) and node.id in definitions and node.id not in used:
                used.add(node.id)
                pending.append(node.id)
    return used


def _code(statement: ast.stmt | None) -> Iterator[ast.AST]:
    """The nodes of a statement without its decorators, which run on the client."""
    if statement is not None:
        decorators = {
            id(node) for each in getattr(statement, "decorator_list", ()) for node in ast.walk(each)
        }
        yield from (node for node in ast.walk(statement) if id(node) not in decorators)


def _names(statement: ast.stmt) -> set[str]:
    if isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        return {statement.name}
    if isinstance(statement, (ast.Import, ast.ImportFrom)):
        return {(alias.asname or alias.name.partition(".")[0]) for alias in statement.names}
    targets = statement.targets if isinstance(statement, ast.Assign) else [getattr(statement, "target", None)]
    return {
        node.id
        for target in targets
        if target is not None
        for node in ast.walk(target)
        if isinstance(node, ast.Name)
    }


def _job(module: Module, name: str, span: Span, call: Call | None, function: FunctionNode) -> JobDefinition:
    settings = _settings(module.unit)

    def take(keyword: str, setting: str, fallback: Value = ABSENT) -> Value:
        value = call.argument(keyword) if call is not None else ABSENT
        if not value.is_absent:
            return value
        return default(settings[setting]) if setting in settings else fallback

    return JobDefinition(
        kind="training",
        source="remote",
        api=f"@{name.rpartition('.')[2]}" if "Executor" not in name else "RemoteExecutor",
        span=span,
        instance_type=take("instance_type", "InstanceType"),
        instance_count=take("instance_count", "InstanceCount", known(1)),
        image=take("image_uri", "ImageUri"),
        distribution=_distribution(call),
        environment=take("environment_variables", "EnvironmentVariables"),
        arguments=call.arguments() if call is not None else {},
        call=call,
        module=module,
        script_unit=Unit(
            module.unit.path,
            remote_text(module, function),
            "python",
            name=module.unit.name,
            segments=module.unit.segments,
            encoding=module.unit.encoding,
        ),
    )


def _distribution(call: Call | None) -> Value:
    """The launcher of a remote function in the form of the SDK's `distribution`."""
    if call is None:
        return ABSENT
    entries = Entries()
    for keyword, launcher in (("use_torchrun", "torch_distributed"), ("use_mpirun", "mpi")):
        flag = call.argument(keyword)
        if flag.is_absent or flag.flag is False:
            continue
        options = Entries({"enabled": flag, "processes_per_host": call.argument("nproc_per_node")})
        entries[launcher] = known(options, flag.span)
    return known(entries, call.span) if entries else ABSENT


def _settings(unit: Unit) -> dict[str, str | int]:
    """The defaults for remote functions in a config.yaml next to the launcher."""
    path: Path = unit.absolute.parent / "config.yaml"
    try:
        text = path.read_text()
    except (OSError, ValueError):
        return {}
    if "RemoteFunction" not in text:
        return {}
    import yaml  # only where such a file is

    try:
        document = yaml.safe_load(text)
        for key in _SETTINGS:
            document = document[key]
    except (yaml.YAMLError, KeyError, TypeError):
        return {}
    return {str(key): value for key, value in document.items() if isinstance(value, (str, int))}
