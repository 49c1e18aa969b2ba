"""The hosts of a job, by SageMaker's names, and how their output is shown."""

from __future__ import annotations

from collections.abc import Sequence

from gpuproof.errors import UsageError

FIRST_HOST = "algo-1"
"""The first host of each job, and the only one of most."""


def host_names(count: int) -> tuple[str, ...]:
    """The names that SageMaker gives to the hosts of a job: `algo-1`, `algo-2` …"""
    return tuple(f"algo-{number}" for number in range(1, count + 1))


def line_prefix(host: str) -> str:
    """What precedes each line of a host's output if the output of several hosts is shown."""
    return f"{host} | "


def require_host(host: str, hosts: Sequence[str], run_id: str) -> None:
    """Reject the name of a host that a run does not have.

    Raises:
        UsageError: it has no such host.
    """
    if host in hosts:
        return
    which = f"its hosts are {hosts[0]} to {hosts[-1]}" if len(hosts) > 1 else f"its only host is {hosts[0]}"
    raise UsageError(f"{run_id} has no host {host}: {which}.", remedy=f"--host {hosts[-1]}")
