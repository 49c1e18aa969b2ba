"""Which files are tests: by name, and by the folders below the root of the repository."""

from __future__ import annotations

import re
from functools import lru_cache
from pathlib import Path

from gpuproof.linter.source.span import Unit

_NAMES = re.compile(r"(test_.*|.*_test|tests|conftest)\.py")
_FOLDERS = frozenset({"test", "tests", "testing"})


def is_test_file(unit: Unit) -> bool:
    """Whether a file is a test.

    The result does not depend on the working directory, nor on the folders that contain the project: outside of a
    repository, only folders named `tests` that contain a test count.
    """
    return _NAMES.fullmatch(unit.absolute.name) is not None or _is_test_folder(unit.folder)


@lru_cache(maxsize=4096)
def _is_test_folder(path: str) -> bool:
    folder = Path(path)
    above = (folder, *folder.parents)
    root = next((parent for parent in above if (parent / ".git").exists()), None)
    if root is not None:
        return not _FOLDERS.isdisjoint(folder.relative_to(root).parts)
    return any(parent.name in _FOLDERS and _contains_test(parent) for parent in above)


def _contains_test(folder: Path) -> bool:
    try:
        return any(_NAMES.fullmatch(path.name) for path in folder.glob("*.py"))
    except OSError:
        return False
