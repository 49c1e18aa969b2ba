"""Paths that a module makes of its own: `Path(__file__).parent / "src"` and `os.path.join(os.getcwd(), "src")`.

They are texts relative to the folder of the module, so that they are the same on every machine. The working directory counts
as that folder: a launcher and a job's script are started there, and what names a folder looks in those above, too.
"""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from gpuproof.linter.analysis.module import Module
from gpuproof.linter.analysis.values import UNKNOWN, Entries, Value, known

OWN_FOLDERS = frozenset({"os.path.dirname", "os.getcwd", "pathlib.Path.cwd"})
"""Calls for the folder of a path, or for the working directory."""
_SAME = frozenset({"resolve", "absolute", "expanduser", "as_posix", "strip", "rstrip"})
"""Methods that return the same path."""
_MAX_PARENTS = 8


class OwnPath(str):
    """A path relative to the folder of the module that makes it."""

    __slots__ = ()


def own_file(module: Module) -> Value:
    """The value of `__file__`."""
    return known(OwnPath(module.unit.absolute.name)) if module.unit.kind == "python" else UNKNOWN


def own_folder(arguments: Sequence[Value]) -> Value:
    """The result of a call in `OWN_FOLDERS`: the folder of a module's own path, or the working directory."""
    return folder_above(arguments[0], known(0)) if arguments else known(OwnPath("."))


def folder_above(path: Value, index: Value) -> Value:
    """The value of `path.parents[index]`; unknown unless it is a module's own path."""
    text, level = path.text, index.number
    if not isinstance(text, OwnPath) or not isinstance(level, int) or not 0 <= level < _MAX_PARENTS:
        return UNKNOWN
    for _ in range(level + 1):
        above = posixpath.basename(text) in (".", "..")
        text = posixpath.join(text, "..") if above else posixpath.dirname(text)
        text = posixpath.normpath(text or ".")
    return replace(path, options=(OwnPath(text),))


def own_method(name: str, path: Value) -> Value | None:
    """The result of a method of a module's own path; None if it is none, or the method is like that of any text."""
    return path if isinstance(path.text, OwnPath) and name in _SAME else None


def continued(first: Value, joined: str) -> str:
    """A text that starts with a value: a module's own path if that is one, and the text is not absolute."""
    if isinstance(first.text, OwnPath) and not joined.startswith("/"):
        return OwnPath(posixpath.normpath(joined))
    return joined


def rebased(value: Value, origin: Module, module: Module) -> Value:
    """A value of one module for another: its own paths are made relative to the folder of the other."""
    start, folder = origin.unit.absolute.parent, module.unit.absolute.parent
    if start == folder or not value.options:
        return value

    def converted(path: OwnPath) -> OwnPath:
        return OwnPath(posixpath.relpath(posixpath.join(start.as_posix(), path), folder.as_posix()))

    return _mapped(value, converted)


def _mapped(value: Value, change: Callable[[OwnPath], OwnPath]) -> Value:
    if not any(isinstance(option, (OwnPath, Entries, tuple)) for option in value.options):
        return value
    return replace(value, options=tuple(_changed(option, change) for option in value.options))


def _changed(option: Any, change: Callable[[OwnPath], OwnPath]) -> Any:
    if isinstance(option, OwnPath):
        return change(option)
    if isinstance(option, Entries) and any(isinstance(item.text, OwnPath) for item in option.values()):
        entries = Entries({key: _mapped(item, change) for key, item in option.items()})
        entries.complete = option.complete
        return entries
    return option
