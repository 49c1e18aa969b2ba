"""Which Jupyter server an interpreter has, and how to start it."""

from __future__ import annotations

import importlib.util
import os
import sys
from importlib import metadata
from pathlib import Path
from typing import Callable

_LAB, _NOTEBOOK, _SERVER = "jupyterlab", "notebook", "jupyter_server"
MODULES = (_LAB, _NOTEBOOK, _SERVER)
"""Each of them is a server, the best one first; the last has no user interface, but an API."""

REQUIREMENT = "jupyterlab>=4"
"""What is installed if there is none of them."""


def server_command(work: Path, port: int, version_of: Callable[[str], str] | None = None) -> list[str] | None:
    """The command that starts the interpreter's Jupyter server on the loopback interface; None if it has none.

    The token is not in it, because every process could read it there: the server takes it from `JUPYTER_TOKEN`.
    """
    module = next((name for name in MODULES if importlib.util.find_spec(name) is not None), None)
    if module is None:
        return None
    # Before version 7, the notebook was a server of its own: https://jupyter-notebook.readthedocs.io/en/latest/migrate_to_notebook7.html
    is_classic = module == _NOTEBOOK and int((version_of or metadata.version)(_NOTEBOOK).split(".")[0]) < 7
    app, folder = ("NotebookApp", "notebook_dir") if is_classic else ("ServerApp", "root_dir")
    options = {
        "ip": "127.0.0.1",
        "port": str(port),
        "port_retries": "0",
        "open_browser": "False",
        "allow_root": "True",
        folder: str(work),
    }
    return [sys.executable, "-m", module, *(f"--{app}.{name}={value}" for name, value in options.items())]


def server_environment(packages: Path | None, token: str) -> dict[str, str]:
    """Variables of the server.

    Args:
        packages: the folder that it was installed into, if that is not the interpreter's own.
    """
    variables = {"JUPYTER_TOKEN": token}
    if packages is not None and (share := packages / "share" / "jupyter").is_dir():
        # Source: https://docs.jupyter.org/en/latest/use/jupyter-directories.html
        variables["JUPYTER_PATH"] = _joined(share, "JUPYTER_PATH")
        variables["JUPYTER_CONFIG_PATH"] = _joined(packages / "etc" / "jupyter", "JUPYTER_CONFIG_PATH")
        variables["JUPYTERLAB_DIR"] = str(share / "lab")
    return variables


def _joined(folder: Path, variable: str) -> str:
    return os.pathsep.join(filter(None, (str(folder), os.environ.get(variable))))
