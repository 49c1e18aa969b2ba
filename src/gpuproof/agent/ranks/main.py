"""`gpuproof-agent.pyz --rank SCRIPT ARGUMENTS`, `--rank -m MODULE ARGUMENTS`, `--watched-rank …`, and `--torchrun ARGUMENTS`.

Imports as little as possible: each import delays the start of every rank.
"""

from __future__ import annotations

import sys

RANK = "--rank"
WATCHED_RANK = "--watched-rank"
"""For launchers that do not report how a rank ended."""
TORCHRUN = "--torchrun"


def main() -> int:
    """Run one rank, or torch's launcher; returns 0 at the script's end, and raises what the script raises."""
    option, *words = sys.argv[1:]
    if option == TORCHRUN:
        from gpuproof.agent.ranks.torchrun import run_torchrun  # imports what no rank needs

        return run_torchrun(words)
    if option == WATCHED_RANK:
        from gpuproof.agent.ranks.watched import run_watched_rank

        return run_watched_rank(words)
    from gpuproof.agent.ranks.rank import run_rank

    return run_rank(words)
