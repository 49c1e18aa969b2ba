"""Starts GPUproof's model server in place of the image's own, where the image's entry point is a Python program.

CreateModel has no entry point, but it has environment variables. `PYTHONPATH` leads every Python of the container to this file, which
Python imports before the program. It acts only if the program was started with the single argument `serve`, as SageMaker
starts containers of models; for all other programs it imports the `sitecustomize` that it hides. The server is started with
the environment that the container would have had without the hook, so that the hook cannot run twice.
"""

import os
import sys

_AGENT = "GPUPROOF_SERVER"
_FOLDER = os.path.dirname(os.path.abspath(__file__))


def _is_entry_point() -> bool:
    return bool(os.environ.get(_AGENT)) and list(getattr(sys, "argv", ()))[1:] == ["serve"]


def _environment() -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if name not in (_AGENT, "BASH_ENV")}
    others = [path for path in kept.pop("PYTHONPATH", "").split(os.pathsep) if path and path != _FOLDER]
    if others:
        kept["PYTHONPATH"] = os.pathsep.join(others)
    return kept


def _start_server() -> None:
    agent = os.environ[_AGENT]
    if not os.path.isfile(agent):
        sys.stderr.write(f"gpuproof: {agent} does not exist; the image's own server starts\n")
        return
    sys.stderr.write(f"gpuproof: starting the model server of {agent} in place of {sys.argv[0]}\n")
    sys.stderr.flush()
    command = [sys.executable, agent, "serve", "--leave-on-failure"]
    os.execve(sys.executable, command, _environment())


def _import_hidden() -> None:
    """Import the `sitecustomize` of the image or the user, which this file hides."""
    import importlib.machinery
    import importlib.util

    others = [path for path in sys.path if os.path.abspath(path or ".") != _FOLDER]
    spec = importlib.machinery.PathFinder.find_spec("sitecustomize", others)
    if spec is None or spec.loader is None:
        return
    module = importlib.util.module_from_spec(spec)
    sys.modules["sitecustomize"] = module
    spec.loader.exec_module(module)


if _is_entry_point():
    _start_server()
_import_hidden()
