"""Prints, as JSON, the replacements of v2 modules that sagemaker v3 names itself, or which imports work.

Runs inside the environment of sagemaker v3 (`build_sdk_tables.py` starts it there). Given a list of import
statements, it tries each: the SDK's migration guide names several things that do not exist.
"""

from __future__ import annotations

import contextlib
import importlib
import io
import json
import logging
import sys
import warnings


def main() -> None:
    warnings.simplefilter("ignore")
    logging.disable(logging.CRITICAL)
    given = json.loads(sys.stdin.read() or "null")
    with contextlib.redirect_stdout(io.StringIO()):
        found = {statement: _works(statement) for statement in given} if given else _named_by_the_sdk()
    json.dump(found, sys.stdout, indent=1, sort_keys=True)


def _named_by_the_sdk() -> dict[str, str]:
    """Import statements by v2's top-level module; empty if the SDK only reports "was removed"."""
    table = importlib.import_module("sagemaker.core.deprecations")
    named = {module: statement for module, (_, statement, _) in table._V3_REPLACEMENTS.items()}  # noqa: SLF001
    return dict.fromkeys(table._REMOVED_V2_MODULES, "") | named  # noqa: SLF001


def _works(statement: str) -> bool:
    """Whether an import succeeds in this environment."""
    try:
        exec(statement, {})
    except ImportError:
        return False
    return True


if __name__ == "__main__":
    main()
