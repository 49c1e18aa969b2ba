"""Places the agent's archive on an instance's disk."""

from __future__ import annotations

import os
import threading
from pathlib import Path

from gpuproof.backends.agent_job.archive import agent_file

AGENT = "gpuproof-agent.pyz"

# Two threads that build the archive at once would write to the same file.
_LOCK = threading.Lock()


def place_agent(state: Path, folder: Path) -> None:
    """Place the agent's archive in a folder of an instance.

    Args:
        state: the emulator's state folder, where the archive is cached.
    """
    with _LOCK:
        agent = agent_file(state / "agent")
        # A hard link: a newer archive replaces the cached file.
        os.link(agent, folder / AGENT)
