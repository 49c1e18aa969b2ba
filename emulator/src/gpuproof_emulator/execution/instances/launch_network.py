"""The network that the instances of one launch share, so that they reach each other by their private addresses."""

from __future__ import annotations

import threading
from collections.abc import Iterable

from gpuproof.agent.hosts import Egress, HostNetwork


class LaunchNetwork:
    """Created by the first instance that joins, and closed when the last has left.

    Args:
        instances: ids of the instances, which are their host names.
    """

    def __init__(self, instances: Iterable[str]) -> None:
        self._names = list(instances)
        self._left = set(self._names)
        self._network: HostNetwork | None = None
        self._lock = threading.Lock()

    def join(self, egress: Egress) -> HostNetwork:
        """The network.

        Args:
            egress: what all instances reach outside; that of the first which joins is used.

        Raises:
            NetworkUnavailable: this computer allows no network namespaces.
        """
        with self._lock:
            if self._network is None:
                self._network = HostNetwork.create(self._names, egress)
            return self._network

    def leave(self, instance: str) -> None:
        """An instance has ended, or never joined."""
        with self._lock:
            self._left.discard(instance)
            if not self._left and self._network is not None:
                self._network.close()
                self._network = None
