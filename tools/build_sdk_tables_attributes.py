"""Prints, as JSON, the attributes of the classes of the `sagemaker` package that users hold objects of.

Runs inside the environment of one SDK version (`build_sdk_tables.py` starts it there, with the parts of the package on
stdin) and uses only the standard library. An attribute is what `dir` lists, a pydantic field, or what a method assigns to `self`.
"""

from __future__ import annotations

import ast
import contextlib
import importlib
import inspect
import io
import json
import logging
import re
import sys
import textwrap
import warnings
from collections.abc import Iterator
from typing import Any

PACKAGE = "sagemaker"
RESOURCES = (
    "sagemaker.core.resources.Endpoint",
    "sagemaker.core.resources.EndpointConfig",
    "sagemaker.core.resources.HyperParameterTuningJob",
    "sagemaker.core.resources.Model",
    "sagemaker.core.resources.ProcessingJob",
    "sagemaker.core.resources.TrainingJob",
    "sagemaker.core.resources.TransformJob",
)
"""Resources of sagemaker v3 that its trainers and builders return."""

_OF_PYDANTIC = (  # noqa: SIM905 - a long list reads better in lines
    "construct copy from_orm validate parse_file parse_obj parse_raw model_construct model_copy model_validate "
    "model_validate_json model_validate_strings"
).split()
"""Methods of pydantic's models, which nobody calls on these classes."""


def main() -> None:
    warnings.simplefilter("ignore")
    logging.disable(logging.CRITICAL)
    wanted: list[str] = json.load(sys.stdin)
    sys.argv = sys.argv[:1]
    with contextlib.redirect_stdout(io.StringIO()):
        classes = dict(_classes([f"{PACKAGE}.{part}" for part in wanted]))
        found = [_row(path, cls, classes) for path, cls in sorted(classes.items()) if not _is_open(cls)]
    json.dump({"classes": found}, sys.stdout, indent=1)


def _classes(wanted: list[str]) -> Iterator[tuple[str, type]]:
    """Classes with public methods in these modules and the modules below them, by the name at their definition."""
    for path in (*wanted, *RESOURCES):
        module_name = path
        while True:
            try:
                module = importlib.import_module(module_name)
            except Exception:  # noqa: BLE001 - optional parts fail in many ways
                module_name = module_name.rpartition(".")[0]
                if module_name in ("", PACKAGE):
                    break
                continue
            names = [path[len(module_name) + 1 :]] if module_name != path else list(vars(module))
            for name in names:
                value = getattr(module, name, None)
                if (
                    isinstance(value, type)
                    and value.__module__.startswith(module_name)
                    and _has_methods(value)
                ):
                    yield f"{value.__module__}.{value.__qualname__}", value
            break


def _has_methods(cls: type) -> bool:
    if issubclass(cls, BaseException) or cls.__name__.startswith("_"):
        return False
    return any(
        inspect.isfunction(value) and not name.startswith("_")
        for base in cls.__mro__
        if base.__module__.split(".")[0] == PACKAGE
        for name, value in vars(base).items()
    )


def _is_open(cls: type) -> bool:
    """Whether an object may have attributes that cannot be listed."""
    if getattr(cls, "model_config", {}).get("extra") == "allow":
        return True
    own = [base for base in cls.__mro__ if base.__module__.split(".")[0] == PACKAGE]
    return any("__getattr__" in vars(base) for base in own) or any(_assigned(base) is None for base in own)


def _assigned(cls: type) -> set[str] | None:
    """Attributes that the methods of a class assign to `self`; None if it also assigns computed names."""
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(cls)))
    except (OSError, TypeError, SyntaxError):
        return set()
    found: set[str] = set()
    for node in ast.walk(tree):
        match node:
            case ast.Attribute(value=ast.Name(id="self"), attr=name, ctx=ast.Store()):
                found.add(name)
            case ast.Call(func=ast.Name(id="setattr"), args=[ast.Name(id="self"), name, *_]):
                if not isinstance(name, ast.Constant):
                    # pydantic rejects names that are not fields.
                    if not hasattr(cls, "model_fields"):
                        return None
                else:
                    found.add(str(name.value))
            case ast.AnnAssign(target=ast.Name(id=name)):
                found.add(name)
            case _:
                pass
    return found


def _row(path: str, cls: type, classes: dict[str, type]) -> dict[str, Any]:
    names = _names(cls)
    bases = [
        f"{base.__module__}.{base.__qualname__}"
        for base in cls.__mro__[1:]
        if f"{base.__module__}.{base.__qualname__}" in classes and not _is_open(base)
    ][:1]
    inherited = set[str]().union(*(_names(classes[base]) for base in bases))
    return {
        "class": path,
        "base": " ".join(bases),
        "names": " ".join(sorted(names - inherited)),
        "returns": " ".join(
            f"{method}={made}"
            for method, made in sorted(_returns(cls, classes))
            if method in names - inherited
        ),
    }


def _names(cls: type) -> set[str]:
    found = set(dir(cls)) | set(getattr(cls, "model_fields", {})) | set(getattr(cls, "__annotations__", {}))
    for base in cls.__mro__:
        if base.__module__.split(".")[0] == PACKAGE:
            found |= _assigned(base) or set()
    return {name for name in found if not name.startswith("_")}


def _returns(cls: type, classes: dict[str, type]) -> Iterator[tuple[str, str]]:
    """Methods that return objects of the listed classes, by their annotation; several classes are joined by `|`."""
    by_name: dict[str, list[str]] = {}
    for path in classes:
        by_name.setdefault(path.rpartition(".")[2], []).append(path)
    for name in dir(cls):
        raw = inspect.getattr_static(cls, name)
        function = inspect.unwrap(getattr(raw, "__func__", raw))
        if name.startswith("_") or not inspect.isfunction(function):
            continue
        if name in _OF_PYDANTIC:
            continue
        annotation = function.__annotations__.get("return")
        text = annotation if isinstance(annotation, str) else inspect.formatannotation(annotation or "")
        words = [word.rpartition(".")[2] for word in re.findall(r"[\w.]+", text)]
        words = [word for word in words if word not in ("Optional", "Union", "ForwardRef", "None")]
        if not words:
            continue
        made = [_home(word, cls, by_name) for word in words]
        if all(made):
            yield name, "|".join(dict.fromkeys(path for path in made if path))


def _home(word: str, cls: type, by_name: dict[str, list[str]]) -> str | None:
    """The listed class of a name in an annotation; None if it is no listed class, or one of several."""
    if word == "Self":
        return f"{cls.__module__}.{cls.__qualname__}"
    same = by_name.get(word, [])
    resource = [path for path in same if path in RESOURCES]
    return resource[0] if resource else same[0] if len(same) == 1 else None


if __name__ == "__main__":
    main()
