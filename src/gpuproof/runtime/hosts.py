"""Cluster configuration that every host computes identically."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

TENSORFLOW_PORT = 8890
"""Port of TensorFlow's workers, the same as in SageMaker's training toolkit."""
TORCH_PORT = 7777
"""Port of PyTorch's rank 0, the same as in SageMaker's training toolkit."""
WORKER = "worker"
PARAMETER_SERVER = "ps"
CHIEF = "chief"


class TooFewHosts(ValueError):
    """A parameter server requires at least three hosts: a chief, a worker and a server."""


def worker_config(hosts: tuple[str, ...], number: int) -> dict[str, object]:
    """`TF_CONFIG` for one worker per host.

    Args:
        number: index of this host.
    """
    return _config({WORKER: hosts}, WORKER, number)


def parameter_server_config(hosts: tuple[str, ...], number: int) -> dict[str, object]:
    """`TF_CONFIG` with the first host as chief, the last as parameter server, and workers between.

    Raises:
        TooFewHosts: fewer than three hosts.
    """
    if len(hosts) < 3:
        raise TooFewHosts(
            f"a parameter server requires at least three hosts (a chief, workers, a server), but this job has {len(hosts)}: "
            "set instance_count: 3, or use strategy('multi-worker')"
        )
    last = len(hosts) - 1
    cluster = {CHIEF: hosts[:1], WORKER: hosts[1:last], PARAMETER_SERVER: hosts[last:]}
    if number == 0:
        return _config(cluster, CHIEF, 0)
    if number == last:
        return _config(cluster, PARAMETER_SERVER, 0)
    return _config(cluster, WORKER, number - 1)


def network_interface(environment: Mapping[str, str] = os.environ) -> str | None:
    """The network interface that the job sets for traffic between hosts, if this host has it."""
    name = environment.get("SM_NETWORK_INTERFACE_NAME")
    return name if name and Path("/sys/class/net", name).exists() else None


def _config(cluster: Mapping[str, tuple[str, ...]], kind: str, index: int) -> dict[str, object]:
    addressed = {name: [f"{host}:{TENSORFLOW_PORT}" for host in some] for name, some in cluster.items()}
    return {"cluster": addressed, "task": {"type": kind, "index": index}, "environment": "cloud"}
