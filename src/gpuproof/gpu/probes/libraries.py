"""Probe, for the user's interpreter: which CUDA libraries load, one by one, and from where.

Its argument is a JSON object: `names`, such as `libcudnn.so.9`, in an order in which each comes after what it needs;
`folders` to look into where the loader finds nothing; `load`, whether to load those that a folder has.
"""

from __future__ import annotations

import ctypes
import json
import os
import sys
from typing import Any


def tell(kind: str, **facts: Any) -> None:
    print("\x1egpuproof " + json.dumps({"kind": kind, **facts}), flush=True)


def main() -> None:
    wanted = json.loads(sys.argv[2])
    for name in wanted["names"]:
        tell("step", name=f"dlopen {name}")
        tell("library", name=name, **look(name, wanted["folders"], load=wanted["load"]))
    tell("done")


def look(name: str, folders: list[str], *, load: bool) -> dict[str, Any]:
    """Where a library is, or why it does not load."""
    paths = [os.path.join(folder, name) for folder in folders]  # noqa: PTH118
    here = [path for path in paths if os.path.exists(path)]  # noqa: PTH110
    if here and not load:
        return {"path": here[0]}
    error = None
    for path in (name, *here):
        try:
            library = ctypes.CDLL(path, mode=ctypes.RTLD_GLOBAL)
        except OSError as problem:
            # That the loader does not find it by its name alone is no fault where a folder has it.
            absent = str(problem).startswith(f"{name}: cannot open shared object file: No such file")
            error = error if absent else str(problem)
            continue
        return {"path": path, "version": version_of(library)}
    return {"path": None, "error": error}


def version_of(library: ctypes.CDLL) -> int | None:
    """What cuDNN says of itself."""
    try:
        function = library.cudnnGetVersion
    except AttributeError:
        return None
    function.restype = ctypes.c_size_t
    return int(function()) or None


if __name__ == "__main__":
    main()
