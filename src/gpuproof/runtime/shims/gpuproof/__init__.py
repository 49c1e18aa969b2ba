"""Provides `import gpuproof.runtime` to a script whose interpreter has no GPUproof.

The agent puts the parent folder on the script's PYTHONPATH, which precedes installed packages. So this package replaces
itself by an installed GPUproof, if there is one, and otherwise provides the agent's copy, at the end of the search path.
"""

import sys
from pathlib import Path

_entry = Path(__file__).parents[1]


def _find_installed():
    original = sys.path[:]
    sys.path[:] = [folder for folder in original if Path(folder) != _entry]
    try:
        found = (
            finder.find_spec("gpuproof", None) for finder in sys.meta_path if hasattr(finder, "find_spec")
        )
        return next((spec for spec in found if spec is not None), None)
    finally:
        sys.path[:] = original


_spec = _find_installed()
if _spec is None or _spec.loader is None:
    # .../gpuproof/runtime/shims/gpuproof: the agent's package is three folders up.
    __path__ = [str(_entry.parents[1])]
    sys.path.append(str(_entry.parents[2]))
else:
    __file__, __path__, __spec__ = str(_spec.origin), list(_spec.submodule_search_locations or ()), _spec
    _spec.loader.exec_module(sys.modules[__name__])
