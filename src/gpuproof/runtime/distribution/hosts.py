"""Addresses of the job's hosts, and the network interface between them."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Mapping

TORCH_PORT = 7777
"""Port of PyTorch's rank 0, the same as in SageMaker's training toolkit."""
_ADDRESSES = "GPUPROOF_HOST_ADDRESSES"


def host_address(host: str, port: int, environment: Mapping[str, str] = os.environ) -> str:
    """Address and port at which other hosts reach a port of a host, such as `algo-1:8890`.

    Args:
        port: the same on all hosts, unless they share one network.
    """
    # Set by the agent where hosts are not reached by their names: address and port offset of each.
    known = json.loads(environment.get(_ADDRESSES) or "{}")
    address, offset = known.get(host, (host, 0))
    return f"{address}:{port + offset}"


def network_interface(environment: Mapping[str, str] = os.environ) -> str | None:
    """The network interface that the job sets for traffic between hosts, if this host has it."""
    name = environment.get("SM_NETWORK_INTERFACE_NAME")
    # Not /sys/class/net, which may show another network namespace.
    return name if name in [known for _, known in socket.if_nameindex()] else None
