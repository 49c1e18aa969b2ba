"""The agent's file on an instance's disk."""

from __future__ import annotations

import os
import threading
from pathlib import Path

from gpuproof.backends.agent_archive import agent_file

AGENT = "gpuproof-agent.pyz"

# Two threads that build it at once would write into one file.
_LOCK = threading.Lock()


def put_agent(state: Path, folder: Path) -> None:
    """Put the agent's file into a folder of an instance.

    Args:
        state: where it is kept once it is built.
    """
    with _LOCK:
        agent = agent_file(state / "agent")
        # A link of its own: a newer agent takes the old file's place.
        os.link(agent, folder / AGENT)
