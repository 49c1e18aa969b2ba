"""`gpuproof-agent.pyz --mpi-run CONFIG SCRIPT…`, `--mpi-host CONFIG` and `--mpi-connect CONFIG HOST COMMAND…`."""

from __future__ import annotations

import sys
from pathlib import Path

from gpuproof.agent.mpi.config import CONNECT, HOST, MpiConfig


def main() -> int:
    """Run one of the programs; returns its exit code."""
    option, path, *words = sys.argv[1:]
    config = MpiConfig.read(Path(path))
    # Imported here: each program needs only its own module.
    if option == CONNECT:
        from gpuproof.agent.mpi.connect import run_connect

        return run_connect(config, words[0], words[1:])
    if option == HOST:
        from gpuproof.agent.mpi.host import MpiHost

        return MpiHost(config).run()
    from gpuproof.agent.mpi.run import MpiRun

    return MpiRun(config, Path(path), words).run()
