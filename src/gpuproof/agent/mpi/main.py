"""`gpuproof-agent.pyz --mpi-run CONFIG SCRIPT…`, `--mpi-host CONFIG` and `--mpi-connect CONFIG HOST COMMAND…`."""

from __future__ import annotations

import sys
from pathlib import Path

from gpuproof.agent.mpi.channel import Channel, NotAuthenticated
from gpuproof.agent.mpi.config import CONNECT, HOST, MpiConfig


def main() -> int:
    """Run one of the programs; returns its exit code."""
    option, path, *words = sys.argv[1:]
    config = MpiConfig.read(Path(path))
    # Imported here: each program needs only its own module.
    if option == CONNECT:
        return run_connect(config, words[0], words[1:])
    if option == HOST:
        from gpuproof.agent.mpi.host import MpiHost

        return MpiHost(config).run()
    from gpuproof.agent.mpi.run import MpiRun

    return MpiRun(config, Path(path), words).run()


def run_connect(config: MpiConfig, host: str, words: list[str]) -> int:
    """Have the daemon started, pass its output on, and return its exit code.

    Args:
        host: the host's name as mpirun knows it.
    """
    address = config.endpoint(host)
    try:
        channel = Channel.connect(address, config.secret)
        channel.send({"role": "daemon", "command": " ".join(words)})
        while (message := channel.receive()) is not None:
            if "output" in message:
                sys.stderr.write(message["output"])
                sys.stderr.flush()
            if "refused" in message:
                return _fail(f"{host} did not start Open MPI's daemon: {message['refused']}")
            if "ended" in message:
                return message["ended"]
    except (OSError, NotAuthenticated) as error:
        return _fail(f"{host} ({address[0]}, port {address[1]}): {error}")
    return _fail(f"{host} closed the connection")


def _fail(why: str) -> int:
    print(f"gpuproof: {why}", file=sys.stderr, flush=True)
    return 1
