"""`--mpi-connect CONFIG HOST COMMAND…`: what mpirun starts in place of ssh, to have its daemon started on another host."""

from __future__ import annotations

import sys

from gpuproof.agent.mpi.channel import Channel, NotAuthenticated
from gpuproof.agent.mpi.config import MpiConfig


def run_connect(config: MpiConfig, host: str, words: list[str]) -> int:
    """Have the daemon started, pass its output on, and return its exit code.

    Args:
        config: the job.
        host: the host's name as mpirun knows it.
        words: the shell command of the daemon.
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
