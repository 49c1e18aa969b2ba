"""The entry point of the emulator's images for models: starts GPUproof's server when its argument is `serve`.

It is a Python program that SageMaker starts with one argument, as AWS's images have one: a model's environment variables that take
over the entry point on AWS (`PYTHONPATH` and a `sitecustomize.py`, as `gpuproof deploy` sends them) do so here, too.
"""

from __future__ import annotations

from pathlib import Path

from gpuproof_emulator.execution.agent_archive import AGENT

_NAME = "serving-entry-point.py"
_PROGRAM = f"""\
import os, sys

if sys.argv[1:] == ["serve"]:
    agent = os.path.join(os.path.dirname(os.path.abspath(__file__)), "{AGENT}")
    os.execv(sys.executable, [sys.executable, agent, "serve", "--leave-on-failure"])
sys.exit("The argument must be serve.")
"""


def place_entry_point(folder: Path) -> None:
    """Write the entry point next to the agent's file, in a folder of an instance."""
    (folder / _NAME).write_text(_PROGRAM)


def command(folder: Path) -> list[str]:
    """The command that starts a model's container."""
    return ["python3", str(folder / _NAME), "serve"]
