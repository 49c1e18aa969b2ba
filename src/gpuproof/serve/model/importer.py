"""Importing a handler under its own name, with its folder on `sys.path`, several models' handlers beside one another."""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
from pathlib import Path
from types import ModuleType

from gpuproof.serve.errors import LoadError
from gpuproof.serve.model.discovery import Found
from gpuproof.serve.model.tracebacks import of_handler

CARRIED = Path(__file__).resolve().parent.parent / "carried"
"""Where a handler finds `sagemaker_inference`, if the image has none."""

_PROBLEM = "The handler cannot be imported"


class Home:
    """A handler's place in this process: what it has on `sys.path`, and the modules that it brought.

    Two models may both have an `inference.py` with a `utils.py` beside it. Whoever's turn it is has its own modules in
    `sys.modules`, so that imports inside its functions find its own files.
    """

    _present: Home | None = None

    def __init__(self, paths: tuple[Path, ...]) -> None:
        self._paths = [str(path) for path in paths]
        self._modules: dict[str, ModuleType] = {}

    def enter(self) -> None:
        """Makes it this handler's turn."""
        if Home._present is self:
            return
        if Home._present is not None:
            Home._present.leave()
        Home._present = self
        sys.path[:0] = self._paths
        sys.modules.update(self._modules)
        importlib.invalidate_caches()

    def leave(self) -> None:
        """Takes this handler's modules and folders away."""
        if Home._present is not self:
            return
        Home._present = None
        self._modules = {name: module for name, module in list(sys.modules.items()) if self._is_own(module)}
        for name in self._modules:
            del sys.modules[name]
        for path in self._paths:
            if path in sys.path:
                sys.path.remove(path)

    def uses(self, package: str) -> bool:
        """Whether one of the handler's modules has a package, or something of it, among its names."""
        own = [module for module in list(sys.modules.values()) if self._is_own(module)]
        return any(_comes_from(value, package) for module in own for value in list(vars(module).values()))

    def _is_own(self, module: ModuleType) -> bool:
        file = getattr(module, "__file__", None)
        return isinstance(file, str) and any(file.startswith(path + os.sep) for path in self._paths)


def import_handler(found: Found, home: Home) -> ModuleType | None:
    """The handler's module, or `None` where there is none.

    Raises:
        LoadError: it cannot be imported; with its traceback and, for a missing module, what to install.
    """
    home.enter()
    if str(CARRIED) not in sys.path:
        # At the end: an installed toolkit goes first.
        sys.path.append(str(CARRIED))
    if found.file is None:
        return None
    spec = importlib.util.spec_from_file_location(found.module, found.file)
    if spec is None or spec.loader is None:
        raise LoadError(f"{_PROBLEM}: {found.file} is no Python file.")
    module = importlib.util.module_from_spec(spec)
    # Under its own name, as the toolkits do it: pickled models look for their classes there.
    sys.modules[found.module] = module
    try:
        spec.loader.exec_module(module)
    except ModuleNotFoundError as error:
        raise LoadError(
            f"{_PROBLEM}: {found.file} needs the module {error.name!r}, which is not installed.",
            remedy=_how_to_install(found, error.name or ""),
            details=of_handler(error),
        ) from error
    except (Exception, SystemExit) as error:
        raise LoadError(
            f"{_PROBLEM}: {found.file} raised {type(error).__name__}: {error}",
            details=of_handler(error),
        ) from error
    return module


def _comes_from(value: object, package: str) -> bool:
    name = value.__name__ if isinstance(value, ModuleType) else getattr(value, "__module__", None)
    return isinstance(name, str) and name.partition(".")[0] == package


def _how_to_install(found: Found, name: str) -> str:
    package = name.partition(".")[0]
    beside = found.file.resolve().parent if found.file is not None else None
    if beside is not None and ((beside / f"{package}.py").is_file() or (beside / package).is_dir()):
        # `--code FILE` brings that file alone.
        return f"It lies in {beside}: give the whole folder, --code {beside}"
    if found.requirements is not None:
        return f"pip install -r {found.requirements}   (or add {package} to it, if it is not listed)"
    return f"pip install {package}, and list it in requirements.txt beside {found.file}"
