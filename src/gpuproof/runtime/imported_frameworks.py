"""Which frameworks the script uses; none is imported that the script has not imported or named."""

from __future__ import annotations

import importlib
import sys
from importlib.util import find_spec
from typing import Any

TENSORFLOW = "tensorflow"
TORCH = "torch"
NAMES = {TENSORFLOW: "TensorFlow", TORCH: "PyTorch"}
_ALIASES = {
    "tensorflow": TENSORFLOW,
    "tf": TENSORFLOW,
    "keras": TENSORFLOW,
    "torch": TORCH,
    "pytorch": TORCH,
}


class NoFramework(RuntimeError):
    """Neither TensorFlow nor PyTorch is imported or named, or both are and none is named."""


def named(framework: str) -> str:
    """The import name for what a person calls a framework.

    Raises:
        ValueError: neither TensorFlow, Keras nor PyTorch.
    """
    try:
        return _ALIASES[framework.lower()]
    except KeyError:
        raise ValueError(f"framework={framework!r}: 'tensorflow' (for Keras too) or 'torch'") from None


def imported() -> tuple[str, ...]:
    """The frameworks that the script has imported."""
    return tuple(name for name in (TENSORFLOW, TORCH) if loaded(name) is not None)


def installed() -> tuple[str, ...]:
    """The frameworks that the script could import; looks for them without importing."""
    return tuple(name for name in (TENSORFLOW, TORCH) if name in sys.modules or find_spec(name) is not None)


def loaded(name: str) -> Any:
    """A module, if the script has imported it; else `None`."""
    module = sys.modules.get(name)
    # A module that is still being imported has no version yet.
    return module if module is not None and hasattr(module, "__version__") else None


def load(name: str) -> Any:
    """Import a framework that the script has named or imported."""
    return importlib.import_module(name)


def the_one(framework: str | None) -> str:
    """The framework that is meant: the one named, else the one imported.

    Raises:
        NoFramework: that is none, or not one alone.
    """
    if framework is not None:
        return named(framework)
    found = imported()
    if len(found) == 1:
        return found[0]
    if found:
        raise NoFramework("both TensorFlow and PyTorch are imported: say which, with framework='torch'")
    here = installed()
    hint = f"; {' and '.join(NAMES[name] for name in here)} can be imported" if here else ""
    raise NoFramework(
        f"neither TensorFlow nor PyTorch is imported yet: import it first, or name it with framework='torch'{hint}"
    )
