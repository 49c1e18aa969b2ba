"""Imports handlers under their own names with their folders on `sys.path`, also for several models in one process."""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
from pathlib import Path
from types import ModuleType

from gpuproof.serve.errors import LoadError
from gpuproof.serve.model.discovery import HandlerLocation
from gpuproof.serve.model.tracebacks import format_handler_traceback

SHIMS = Path(__file__).resolve().parent.parent / "shims"
"""Provides `sagemaker_inference` to handlers if it is not installed."""

_ERROR = "The handler cannot be imported"


class HandlerModules:
    """A handler's folders on `sys.path`, and its modules.

    Two models may both have an `inference.py` and a `utils.py`. Only the active handler's modules are in `sys.modules`,
    so that imports inside its functions find its own files.
    """

    _active: HandlerModules | None = None

    def __init__(self, paths: tuple[Path, ...]) -> None:
        self._paths = [str(path) for path in paths]
        self._modules: dict[str, ModuleType] = {}

    def activate(self) -> None:
        """Make this handler the active one."""
        if HandlerModules._active is self:
            return
        if HandlerModules._active is not None:
            HandlerModules._active.deactivate()
        HandlerModules._active = self
        sys.path[:0] = self._paths
        sys.modules.update(self._modules)
        importlib.invalidate_caches()

    def deactivate(self) -> None:
        """Remove this handler's modules from `sys.modules` and its folders from `sys.path`."""
        if HandlerModules._active is not self:
            return
        HandlerModules._active = None
        self._modules = {name: module for name, module in list(sys.modules.items()) if self._is_own(module)}
        for name in self._modules:
            del sys.modules[name]
        for path in self._paths:
            if path in sys.path:
                sys.path.remove(path)

    def uses(self, package: str) -> bool:
        """Whether one of the handler's modules has imported a package, or something from it."""
        own = [module for module in list(sys.modules.values()) if self._is_own(module)]
        return any(_comes_from(value, package) for module in own for value in list(vars(module).values()))

    def _is_own(self, module: ModuleType) -> bool:
        file = getattr(module, "__file__", None)
        return isinstance(file, str) and any(file.startswith(path + os.sep) for path in self._paths)


def import_handler(found: HandlerLocation, modules: HandlerModules) -> ModuleType | None:
    """Import the handler; returns `None` if there is none.

    Raises:
        LoadError: it cannot be imported; includes its traceback and, for a missing module, what to install.
    """
    modules.activate()
    if str(SHIMS) not in sys.path:
        # At the end, so that an installed toolkit takes precedence.
        sys.path.append(str(SHIMS))
    if found.file is None:
        return None
    spec = importlib.util.spec_from_file_location(found.module, found.file)
    if spec is None or spec.loader is None:
        raise LoadError(f"{_ERROR}: {found.file} is not a Python file.")
    module = importlib.util.module_from_spec(spec)
    # Under its own name, as in AWS's toolkits: pickled models refer to classes in it.
    sys.modules[found.module] = module
    try:
        spec.loader.exec_module(module)
    except ModuleNotFoundError as error:
        raise LoadError(
            f"{_ERROR}: {found.file} needs the module {error.name!r}, which is not installed.",
            remedy=_install_remedy(found, error.name or ""),
            details=format_handler_traceback(error),
        ) from error
    except (Exception, SystemExit) as error:
        raise LoadError(
            f"{_ERROR}: {found.file} raised {type(error).__name__}: {error}",
            details=format_handler_traceback(error),
            headline=f"{_ERROR}: {found.file} failed:",
        ) from error
    return module


def _comes_from(value: object, package: str) -> bool:
    name = value.__name__ if isinstance(value, ModuleType) else getattr(value, "__module__", None)
    return isinstance(name, str) and name.partition(".")[0] == package


def _install_remedy(found: HandlerLocation, name: str) -> str:
    package = name.partition(".")[0]
    beside = found.file.resolve().parent if found.file is not None else None
    if beside is not None and ((beside / f"{package}.py").is_file() or (beside / package).is_dir()):
        # `--code FILE` includes only that file.
        return f"It is in {beside}: pass the whole folder with --code {beside}"
    if found.requirements is not None:
        return f"pip install -r {found.requirements}   (or add {package} to it, if it is not listed)"
    return f"pip install {package}, and add it to requirements.txt in the folder of {found.file}"
