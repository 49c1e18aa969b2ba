"""What tells whether a run is that of a planned script: a digest of its source and its arguments."""

from __future__ import annotations

import ast
import hashlib
import json
from collections.abc import Iterator, Sequence
from pathlib import Path


def script_key(script: Path, arguments: Sequence[str]) -> str:
    """A digest of a script, of the modules beside it that it imports, and of its arguments, which are stored nowhere.

    Args:
        script: the file.
        arguments: its own.

    Raises:
        OSError: the script cannot be read.
    """
    digest = hashlib.sha256(json.dumps(list(arguments)).encode())
    for path, content in sorted(_sources(script).items()):
        digest.update(f"\0{path.relative_to(script.parent)}\0".encode())
        digest.update(content)
    return digest.hexdigest()[:32]


def _sources(script: Path) -> dict[Path, bytes]:
    found = {script: script.read_bytes()}
    waiting = [script]
    while waiting:
        for path in _imported(found[waiting.pop()], script.parent):
            if path not in found:
                found[path] = path.read_bytes()
                waiting.append(path)
    return found


def _imported(source: bytes, folder: Path) -> Iterator[Path]:
    """The files of a folder that a module imports, of packages all of them."""
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError):
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names = [node.module]
        else:
            continue
        for name in names:
            first = folder / name.partition(".")[0]
            if (module := first.with_suffix(".py")).is_file():
                yield module
            elif first.is_dir():
                yield from (path for path in first.rglob("*.py") if path.is_file())
