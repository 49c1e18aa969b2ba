"""Pages of the Python API, from docstrings: directives that mkdocstrings replaces."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from inspect import isclass, ismodule
from typing import Any

from site_source.pages import Page

MODULES = {
    "gpuproof": (
        "python/gpuproof.md",
        "Python API: `gpuproof`",
        "What the commands do, from Python. `import gpuproof` imports nothing else until a name is used. The fields of jobs are the keys of [`gpuproof.yaml`](job-file-keys.md).",
    ),
    "gpuproof.runtime": (
        "python/runtime.md",
        "Python API: `gpuproof.runtime`",
        "The library for your script: `import gpuproof.runtime as rt` ([guide](runtime.md)). It needs only the standard library and Python 3.9.",
    ),
}
"""Page, title and introduction of each public module."""


def api_pages() -> Iterator[Page]:
    """A page for each public module, functions first."""
    for name, (path, title, introduction) in MODULES.items():
        names = public_names(name)
        lines = [f"# {title}\n", f"{introduction}\n"]
        for heading, is_kind in (("Functions", False), ("Classes and exceptions", True)):
            lines.append(f"## {heading}\n")
            lines += [
                f"::: {home(name, public, value)}\n"
                for public, value in names.items()
                if isclass(value) == is_kind
            ]
        for submodule in public_modules(name):
            lines += [
                f"## `{submodule}`\n",
                f"::: {submodule}\n    options:\n      show_root_heading: false\n",
            ]
        yield Page(path, "\n".join(lines))


def home(module: str, name: str, value: Any) -> str:
    """Where a public name is defined, which is also the anchor of its entry.

    A submodule may have the same name, as `gpuproof.runtime.watch`; a value that is no function or class does not know its own.
    """
    if not hasattr(value, "__qualname__"):
        return f"{module}.{name}"
    return f"{value.__module__}.{value.__qualname__}"


def public_names(module: str) -> dict[str, Any]:
    """The public names of a module and their values, without submodules and `__version__`."""
    imported = import_module(module)
    values = {name: getattr(imported, name) for name in imported.__all__ if not name.startswith("__")}
    return {name: value for name, value in values.items() if not ismodule(value)}


def public_modules(module: str) -> list[str]:
    """The public submodules of a module."""
    imported = import_module(module)
    return [f"{module}.{name}" for name in imported.__all__ if ismodule(getattr(imported, name))]
