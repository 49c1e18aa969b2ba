"""Probe for the user's interpreter: loads CUDA libraries one by one, and reports their paths.

Its argument is a JSON object: `names`, such as `libcudnn.so.9`, ordered by dependencies; `folders` of wheels to search;
`load`, whether to load libraries that are found in a folder.

Wheels of frameworks name these folders in their run paths, which the loader searches after LD_LIBRARY_PATH and before
the libraries of the system (ld.so(8)).
"""

from __future__ import annotations

import ctypes
import json
import os
import sys
from typing import Any

from gpuproof.gpu.probe_record import emit


def main() -> None:
    wanted = json.loads(sys.argv[2])
    for name in wanted["names"]:
        emit("step", name=f"dlopen {name}")
        emit("library", name=name, **find_library(name, wanted["folders"], load=wanted["load"]))
    emit("done")


def find_library(name: str, folders: list[str], *, load: bool) -> dict[str, Any]:
    """Path of a library, or why it cannot be loaded."""
    paths = [os.path.join(folder, name) for folder in folders]  # noqa: PTH118
    existing = [path for path in paths if os.path.exists(path)]  # noqa: PTH110
    if existing and not load:
        return {"path": existing[0]}
    error = None
    overridden = any(
        os.path.exists(os.path.join(folder, name))  # noqa: PTH110, PTH118
        for folder in os.environ.get("LD_LIBRARY_PATH", "").split(":")
        if folder
    )
    for path in (name, *existing) if overridden else (*existing, name):
        try:
            library = ctypes.CDLL(path, mode=ctypes.RTLD_GLOBAL)
        except OSError as problem:
            # Not finding it by its name is no error if a folder has it.
            absent = str(problem).startswith(f"{name}: cannot open shared object file: No such file")
            error = error if absent else str(problem)
            continue
        return {"path": path, "version": version_of(library)}
    return {"path": None, "error": error}


def version_of(library: ctypes.CDLL) -> int | None:
    """cuDNN's version number; `None` for other libraries."""
    try:
        function = library.cudnnGetVersion
    except AttributeError:
        return None
    function.restype = ctypes.c_size_t
    return int(function()) or None


if __name__ == "__main__":
    main()
