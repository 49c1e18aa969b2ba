"""A launch's command for people: as they would type it."""

from __future__ import annotations

from collections.abc import Sequence

from gpuproof.agent.launch.tensorflow import WITH_SERVER
from gpuproof.agent.mpi.config import RUN
from gpuproof.agent.ranks.main import RANK, TORCHRUN, WATCHED_RANK


def shown_command(command: Sequence[str]) -> list[str]:
    """The command without the agent's own programs.

    Args:
        command: such as `python gpuproof-agent.pyz --torchrun … gpuproof-agent.pyz --rank train.py`.
    """
    shown: list[str] = []
    words = iter(command)
    for word in words:
        if word == RUN and len(shown) > 1:
            shown[-2:] = ["mpirun"]
            next(words, None)
        elif word == TORCHRUN and len(shown) > 1:
            shown[-2:] = ["torchrun"]
        elif word == WITH_SERVER and len(shown) > 2:
            del shown[-3:]
            next(words, None)
        elif word in (RANK, WATCHED_RANK) and shown:
            shown.pop()
        else:
            shown.append(word)
    return shown
