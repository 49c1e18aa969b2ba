"""The files that the program of a machine writes for the agent and the client."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

FOLDER = "machine"
"""The folder of these files below `/opt/ml`."""

SERVER = "jupyter.json"
"""How to reach the Jupyter server: `{"version": 1, "port": 8888, "token": TEXT}`; written when it answers."""

END = "end.json"
"""Why the program has ended by itself: `{"version": 1, "reason": TEXT}`."""

VERSION = 1


@dataclass(frozen=True)
class MachineFiles:
    """The files below a contract's folder.

    Args:
        ml: `/opt/ml`, or the folder behind it.
    """

    ml: Path

    @property
    def folder(self) -> Path:
        return self.ml / FOLDER

    @property
    def server(self) -> Path:
        return self.folder / SERVER

    @property
    def end(self) -> Path:
        return self.folder / END
