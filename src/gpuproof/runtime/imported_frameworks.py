"""Detects the frameworks that the script uses, and imports only those that it has imported or given."""

from __future__ import annotations

import importlib
import sys
from importlib.util import find_spec
from typing import Any

TENSORFLOW = "tensorflow"
TORCH = "torch"
FRAMEWORK_NAMES = {TENSORFLOW: "TensorFlow", TORCH: "PyTorch"}
_ALIASES = {
    "tensorflow": TENSORFLOW,
    "tf": TENSORFLOW,
    "keras": TENSORFLOW,
    "torch": TORCH,
    "pytorch": TORCH,
}


class NoFramework(RuntimeError):
    """The framework is not given, and the script has imported none or both."""


def framework_name(framework: str) -> str:
    """Import name for a framework's name or alias.

    Raises:
        ValueError: not TensorFlow, Keras or PyTorch.
    """
    try:
        return _ALIASES[framework.lower()]
    except (KeyError, AttributeError):
        raise ValueError(f"framework={framework!r}: use 'tensorflow' (also for Keras) or 'torch'") from None


def imported_frameworks() -> tuple[str, ...]:
    """The frameworks that the script has imported."""
    return tuple(name for name in (TENSORFLOW, TORCH) if imported_module(name) is not None)


def installed_frameworks() -> tuple[str, ...]:
    """The frameworks that are installed; does not import them."""
    return tuple(name for name in (TENSORFLOW, TORCH) if name in sys.modules or find_spec(name) is not None)


def imported_module(name: str) -> Any:
    """A module that the script has imported; `None` if it has not."""
    module = sys.modules.get(name)
    # A module that is still being imported has no version yet.
    return module if module is not None and hasattr(module, "__version__") else None


def load_module(name: str) -> Any:
    """Import a module, untyped, since frameworks may not be installed.

    Raises:
        ModuleNotFoundError: it is not installed; for a framework, with what to install.
    """
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name != name or name not in FRAMEWORK_NAMES:
            raise
        raise ModuleNotFoundError(
            f"{FRAMEWORK_NAMES[name]} is not installed in {sys.executable}: pip install {name}, or add {name} to requirements.txt",
            name=name,
        ) from error


def resolve_framework(framework: str | None) -> str:
    """Return the given framework, or else the only one that the script has imported.

    Raises:
        NoFramework: the script has imported none or both.
    """
    if framework is not None:
        return framework_name(framework)
    frameworks = imported_frameworks()
    if len(frameworks) == 1:
        return frameworks[0]
    if frameworks:
        raise NoFramework("both TensorFlow and PyTorch are imported: choose one, such as framework='torch'")
    candidates = installed_frameworks()
    hint = (
        f"; {' and '.join(FRAMEWORK_NAMES[name] for name in candidates)} can be imported"
        if candidates
        else ""
    )
    raise NoFramework(
        f"neither TensorFlow nor PyTorch is imported yet: import it first, or set framework='torch'{hint}"
    )
