"""Addresses of hosts, and the network interface between them."""

from __future__ import annotations

import json

from gpuproof.runtime.distribution.hosts import host_address, network_interface


def test_a_host_is_reached_by_its_name() -> None:
    assert host_address("algo-2", 8890, {}) == "algo-2:8890"


def test_hosts_that_share_a_network_have_the_address_and_ports_that_the_agent_sets() -> None:
    environment = {"GPUPROOF_HOST_ADDRESSES": json.dumps({"algo-2": ["127.0.0.1", 10]})}
    assert host_address("algo-2", 8890, environment) == "127.0.0.1:8900"


def test_an_interface_that_this_host_lacks_is_not_named() -> None:
    assert network_interface({"SM_NETWORK_INTERFACE_NAME": "no-such-0"}) is None
    assert network_interface({"SM_NETWORK_INTERFACE_NAME": "lo"}) == "lo"
