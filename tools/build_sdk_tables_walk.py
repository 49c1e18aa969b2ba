"""Prints, as JSON, the modules, names and signatures of the `sagemaker` package of this interpreter.

Runs inside the environment of one SDK version (`build_sdk_tables.py` starts it there); standard library only.
"""

from __future__ import annotations

import ast
import contextlib
import enum
import importlib
import importlib.metadata
import inspect
import io
import json
import logging
import pkgutil
import sys
import types
import warnings
from collections.abc import Iterator
from typing import Any

import build_sdk_tables_accepts as accepts

PACKAGE = "sagemaker"
NOT_FOR_USERS = (
    "cli",
    "local",
    "container_drivers",
    "runtime_environment",
    "deprecations",
    "telemetry",
    "tools",
)
"""Packages of command-line tools, container drivers and helpers: importing some of them starts a program."""


def main() -> None:
    warnings.simplefilter("ignore")
    logging.disable(logging.CRITICAL)
    # Some modules print, or read the command line, on import.
    sys.argv = sys.argv[:1]
    with contextlib.redirect_stdout(io.StringIO()):
        modules, unread = _modules()
        found = {
            "version": importlib.metadata.version(PACKAGE),
            "modules": {name: _names(name, module) for name, module in modules.items()},
            "unread": sorted(unread),
            "calls": dict(_calls(modules)),
            "bases": dict(_bases(modules)),
        }
    json.dump(found, sys.stdout, indent=1, sort_keys=True)


def _modules() -> tuple[dict[str, types.ModuleType], set[str]]:
    """Modules by name, and the names of those that cannot be imported."""
    root = importlib.import_module(PACKAGE)
    found, unread = {PACKAGE: root}, set[str]()
    for each in pkgutil.walk_packages(root.__path__, PACKAGE + ".", onerror=unread.add):
        parts = each.name.split(".")
        if any(part.startswith("_") for part in parts):
            continue
        if any(part in NOT_FOR_USERS for part in parts):
            unread.add(each.name)
            continue
        try:
            found[each.name] = importlib.import_module(each.name)
        except (Exception, SystemExit):  # noqa: BLE001 - optional parts fail in many ways
            unread.add(each.name)
    return found, unread


def _names(module_name: str, module: types.ModuleType) -> dict[str, str]:
    """Public names of a module, each with the `module:name` of its definition, or empty."""
    source = _source(module)
    written = _written(source)
    found: dict[str, str] = {}
    for name in sorted({*dir(module), *_lazy(module, source)}):
        value = getattr(module, name, None)
        if name.startswith("_") or value is None:
            continue
        if isinstance(value, types.ModuleType):
            if value.__name__.split(".")[0] == PACKAGE:
                found[name] = value.__name__ + ":"
            continue
        home = getattr(value, "__module__", None) if callable(value) else None
        if not isinstance(home, str):
            if name in written:
                found[name] = ""
        elif home.split(".")[0] in (PACKAGE, "sagemaker_core"):
            qualified = getattr(value, "__qualname__", name)
            own = home == module_name and qualified == name
            found[name] = "" if own else f"{home}:{qualified}"
    return found


def _source(module: types.ModuleType) -> ast.Module:
    try:
        return ast.parse(inspect.getsource(module))
    except (OSError, TypeError):
        return ast.Module([], [])


def _lazy(module: types.ModuleType, source: ast.Module) -> set[str]:
    """Names that only the `__getattr__` of a module returns; every word in its source is tried."""
    if not hasattr(module, "__getattr__"):
        return set()
    words = {
        node.value
        for node in ast.walk(source)
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value.isidentifier()
    }
    return {word for word in words if _has(module, word)}


def _has(module: types.ModuleType, name: str) -> bool:
    try:
        return hasattr(module, name)
    except Exception:  # noqa: BLE001 - what a lazy name imports may need what is not installed
        return True


def _written(source: ast.Module) -> set[str]:
    """Names of constants that the module assigns, or imports from its own package."""
    found: set[str] = set()
    for node in ast.walk(source):
        match node:
            case ast.ImportFrom(module=home, names=names, level=level):
                if level or (home or "").split(".")[0] == PACKAGE:
                    found.update(alias.asname or alias.name for alias in names)
            case ast.Name(id=name, ctx=ast.Store()):
                found.add(name)
            case _:
                pass
    return found - {"logger"}


def _calls(modules: dict[str, types.ModuleType]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Every class, method and function that a module defines, with its parameters."""
    for module_name, module in modules.items():
        for name, value in vars(module).items():
            if name.startswith("_") or getattr(value, "__module__", None) != module_name:
                continue
            if isinstance(value, type):
                yield from _class_calls(f"{module_name}.{name}", value)
            elif inspect.isfunction(value) or inspect.isfunction(inspect.unwrap(value)):
                yield f"{module_name}.{name}", _plain(accepts.of_function(value))


def _class_calls(path: str, cls: type) -> Iterator[tuple[str, dict[str, Any]]]:
    if not issubclass(cls, (enum.Enum, BaseException)):
        yield path, _plain(accepts.of_class(cls))
    for name in dir(cls):
        if not name.startswith("_") and _is_method(cls, name):
            inherited = name not in vars(cls)
            accepted = accepts.of_method(cls, name)
            if not inherited or accepted != _of_base(cls, name):
                yield f"{path}.{name}", _plain(accepted)


def _of_base(cls: type, name: str) -> accepts.Accepted | None:
    """What the method accepts on the first base that has it."""
    base = next((base for base in cls.__mro__[1:] if hasattr(base, name)), None)
    return accepts.of_method(base, name) if base and _is_method(base, name) else None


def _is_method(cls: type, name: str) -> bool:
    raw = inspect.getattr_static(cls, name)
    function = (
        inspect.unwrap(getattr(raw, "__func__", raw)) if callable(getattr(raw, "__func__", raw)) else None
    )
    home = getattr(function, "__module__", None) or ""
    return inspect.isfunction(function) and home.split(".")[0] == PACKAGE


def _bases(modules: dict[str, types.ModuleType]) -> Iterator[tuple[str, list[str]]]:
    """The SDK classes that each class inherits from directly."""
    for module_name, module in modules.items():
        for name, value in vars(module).items():
            if isinstance(value, type) and value.__module__ == module_name and not name.startswith("_"):
                line = [
                    f"{base.__module__}.{base.__qualname__}"
                    for base in value.__bases__
                    if base.__module__.split(".")[0] == PACKAGE
                ]
                yield f"{module_name}.{name}", line


def _plain(accepted: accepts.Accepted) -> dict[str, Any]:
    return {
        "parameters": [
            [each.name, each.required, each.keyword_only, each.default] for each in accepted.parameters
        ],
        "unknown": accepted.unknown,
        "renamed": dict(accepted.renamed),
        "dropped": list(accepted.dropped),
    }


if __name__ == "__main__":
    main()
