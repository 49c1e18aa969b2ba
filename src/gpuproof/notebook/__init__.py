"""The IPython extension: what the GPUs did while a cell of a notebook ran.

`extension.py` has the magics and the events of a cell, the other modules turn reports into HTML with SVG, which every notebook shows
without widgets or scripts. The GPUs are sampled by a monitor process, so that a cell that holds the GIL is sampled too.
"""

from __future__ import annotations

from typing import Any


def load_ipython_extension(shell: Any) -> None:
    """Add the magics: `%load_ext gpuproof.notebook`, for the agent's file on `sys.path`; it shows no costs."""
    from gpuproof.notebook.extension import load  # imported when a notebook loads it

    load(shell)


def unload_ipython_extension(shell: Any) -> None:
    """Remove what `load_ipython_extension` has added, except for the names of the magics, which IPython keeps."""
    from gpuproof.notebook.extension import unload  # as above

    unload(shell)
