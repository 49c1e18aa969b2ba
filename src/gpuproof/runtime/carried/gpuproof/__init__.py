"""`import gpuproof.runtime` for a script whose interpreter has no GPUproof.

The agent puts the folder above this one on the script's PYTHONPATH, and that comes before what is installed. So this
package gives way: where GPUproof is installed it becomes that, and where it is not it shows what the agent carries, at
the very end of the search path.
"""

import sys
from pathlib import Path

_entry = Path(__file__).parents[1]


def _installed():
    kept = sys.path[:]
    sys.path[:] = [folder for folder in kept if Path(folder) != _entry]
    try:
        found = (
            finder.find_spec("gpuproof", None) for finder in sys.meta_path if hasattr(finder, "find_spec")
        )
        return next((spec for spec in found if spec is not None), None)
    finally:
        sys.path[:] = kept


_spec = _installed()
if _spec is None or _spec.loader is None:
    # .../gpuproof/runtime/carried/gpuproof: the carried package lies three folders up.
    __path__ = [str(_entry.parents[1])]
    sys.path.append(str(_entry.parents[2]))
else:
    __file__, __path__, __spec__ = str(_spec.origin), list(_spec.submodule_search_locations or ()), _spec
    _spec.loader.exec_module(sys.modules[__name__])
