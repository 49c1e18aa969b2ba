"""Acts on modules when a traced script imports them: none is imported because of it."""

from __future__ import annotations

import sys
import types
from collections.abc import Callable, Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from typing import Any

from gpuproof.trace.notes import is_users


class ImportActions(MetaPathFinder):
    """What is done before and after imports, and modules that take the place of those that are installed."""

    def __init__(self) -> None:
        self._before: dict[str, Callable[[], None]] = {}
        self._after: dict[str, list[Callable[[Any], None]]] = {}
        self._replaced: dict[str, Callable[[Any], None]] = {}

    def install(self) -> None:
        """Watch imports from now on."""
        sys.meta_path.insert(0, self)

    def before(self, name: str, action: Callable[[], None]) -> None:
        """Call a function when a module is about to be imported."""
        self._before[name] = action

    def after(self, name: str, action: Callable[[Any], None]) -> None:
        """Call a function with a module when it has been imported, at once if that is so already."""
        if name in sys.modules:
            action(sys.modules[name])
        else:
            self._after.setdefault(name, []).append(action)

    def replace(self, name: str, fill: Callable[[Any], None]) -> None:
        """Import an empty module in place of one that is installed, or that the script itself imports.

        A library that looks whether another one is installed finds nothing new.

        Args:
            name: with its packages, each of which must be replaced, too.
            fill: gives the module its names when it is imported.
        """
        self._replaced[name] = fill

    def keep(self, name: str) -> None:
        """Import a module as it is installed from now on, in place of the one that replaced it."""
        self._replaced.pop(name, None)

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: types.ModuleType | None = None
    ) -> ModuleSpec | None:
        """The module with the actions; None for others."""
        before = self._before.pop(fullname, None)
        if before is not None:
            before()
        fill = self._replaced.get(fullname)
        if fill is not None and (_imported_by_script() or self._is_installed(fullname)):
            packages = {name.rpartition(".")[0] for name in self._replaced}
            return ModuleSpec(fullname, _Filled(fill), is_package=fullname in packages)
        if fullname not in self._after:
            return None
        spec = self._found(fullname, path, target)
        if spec is None or spec.loader is None or not hasattr(spec.loader, "exec_module"):
            return None
        execute = spec.loader.exec_module

        def run(module: types.ModuleType) -> None:
            execute(module)
            for action in self._after.pop(fullname, ()):
                action(module)

        spec.loader.exec_module = run  # type: ignore[method-assign]
        return spec

    def _is_installed(self, fullname: str) -> bool:
        top = fullname.partition(".")[0]
        return top in sys.modules or self._found(top, None, None) is not None

    def _found(
        self, fullname: str, path: Sequence[str] | None, target: types.ModuleType | None
    ) -> ModuleSpec | None:
        for finder in sys.meta_path:
            find = getattr(finder, "find_spec", None)
            if finder is not self and find is not None:
                spec = find(fullname, path, target)
                if spec is not None:
                    return spec
        return None


def _imported_by_script() -> bool:
    """Whether an import statement of the user's own code runs."""
    frame: types.FrameType | None = sys._getframe()  # noqa: SLF001 # pyright: ignore[reportPrivateUsage]
    while frame is not None:
        file = frame.f_code.co_filename
        if file != __file__ and "importlib" not in file:
            return is_users(file)
        frame = frame.f_back
    return False


class _Filled(Loader):
    def __init__(self, fill: Callable[[Any], None]) -> None:
        self._fill = fill

    def create_module(self, spec: ModuleSpec) -> types.ModuleType | None:  # noqa: ARG002
        """Python's own."""
        return None

    def exec_module(self, module: types.ModuleType) -> None:
        """Give the module its names."""
        self._fill(module)
