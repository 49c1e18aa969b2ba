"""Finds file and line of calls and imports in the user's script, for messages about calls in the wrong order."""

from __future__ import annotations

import ast
import os
import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

_PACKAGE = __name__.rpartition(".")[0]
_OWN = os.path.dirname(__file__)  # noqa: PTH120 - modules have their files as text
# Names of calls that initialize no device.
_HARMLESS = ("config", "version", "sysconfig", "__version__", "utils", "set_num_threads", "manual_seed")


def caller() -> tuple[str, int]:
    """File and line of the script's call into this package."""
    frame = sys._getframe(1)  # noqa: SLF001  # pyright: ignore[reportPrivateUsage] - what `inspect` uses, without its cost
    while frame.f_back is not None and str(frame.f_globals.get("__name__")).startswith(_PACKAGE):
        frame = frame.f_back
    return frame.f_code.co_filename, frame.f_lineno


def format_location(file: str, line: int) -> str:
    """Format as `train.py:12`, relative to the current folder if the file is below it."""
    try:
        return f"{Path(file).resolve().relative_to(Path.cwd())}:{line}"
    except ValueError:
        return f"{file}:{line}"


def find_import(framework: str) -> str | None:
    """Find the first line of the script, or of its own modules, that imports a framework; `None` if not found."""
    for file in _script_files():
        for node in _nodes(file):
            if isinstance(node, (ast.Import, ast.ImportFrom)) and framework in _imports(node):
                return format_location(file, node.lineno)
    return None


def find_first_call(framework: str, file: str, before: int) -> str | None:
    """Find the first call of a framework above a line of a file, as `name() in file:line`; `None` if not found."""
    nodes = list(_nodes(file))
    aliases = {
        (alias.asname or alias.name).split(".", 1)[0]
        for node in nodes
        if framework in _imports(node) and isinstance(node, (ast.Import, ast.ImportFrom))
        for alias in node.names
        if isinstance(node, ast.ImportFrom) or alias.name.split(".", 1)[0] == framework
    }
    calls = [node for node in nodes if isinstance(node, ast.Call) and node.lineno < before]
    for call in sorted(calls, key=lambda call: call.lineno):
        name = _dotted(call.func)
        words = name.split(".")
        if words[0] in aliases and not any(word in _HARMLESS for word in words):
            return f"{name}() in {format_location(file, call.lineno)}"
    return None


def _script_files() -> Iterator[str]:
    """Files of the script and its own modules, without installed packages."""
    libraries = tuple({sysconfig.get_path(name) for name in ("stdlib", "purelib", "platlib")})
    main = sys.modules.get("__main__")
    for module in [main, *list(sys.modules.values())]:
        file = getattr(module, "__file__", None) if isinstance(module, ModuleType) else None
        if file and file.endswith(".py") and not file.startswith((*libraries, _OWN)):
            yield file


def _nodes(file: str) -> Iterator[ast.AST]:
    try:
        return ast.walk(ast.parse(Path(file).read_bytes()))
    except (OSError, SyntaxError, ValueError):
        return iter(())


def _imports(node: ast.AST) -> set[str]:
    if isinstance(node, ast.Import):
        return {alias.name.split(".", 1)[0] for alias in node.names}
    if isinstance(node, ast.ImportFrom):
        return {(node.module or "").split(".", 1)[0]}
    return set()


def _dotted(node: ast.AST) -> str:
    if isinstance(node, ast.Attribute):
        return f"{_dotted(node.value)}.{node.attr}"
    return node.id if isinstance(node, ast.Name) else ""
