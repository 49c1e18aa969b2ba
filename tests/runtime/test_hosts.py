"""Several hosts: `TF_CONFIG` out of SageMaker's list."""

from __future__ import annotations

import pytest

from gpuproof.runtime.hosts import TooFewHosts, network_interface, parameter_server_config, worker_config

HOSTS = ("algo-1", "algo-2", "algo-3", "algo-4")


def test_every_host_is_a_worker() -> None:
    config = worker_config(HOSTS[:2], 1)
    assert config["cluster"] == {"worker": ["algo-1:8890", "algo-2:8890"]}
    assert config["task"] == {"type": "worker", "index": 1}


@pytest.mark.parametrize(
    ("number", "task"),
    [
        (0, {"type": "chief", "index": 0}),
        (1, {"type": "worker", "index": 0}),
        (2, {"type": "worker", "index": 1}),
        (3, {"type": "ps", "index": 0}),
    ],
)
def test_the_first_host_coordinates_and_the_last_serves(number: int, task: dict[str, object]) -> None:
    config = parameter_server_config(HOSTS, number)
    assert config["cluster"] == {
        "chief": ["algo-1:8890"],
        "worker": ["algo-2:8890", "algo-3:8890"],
        "ps": ["algo-4:8890"],
    }
    assert config["task"] == task


def test_two_hosts_are_too_few_for_a_parameter_server() -> None:
    with pytest.raises(TooFewHosts, match="requires at least three hosts"):
        parameter_server_config(HOSTS[:2], 0)


def test_an_interface_that_this_host_lacks_is_not_named() -> None:
    assert network_interface({"SM_NETWORK_INTERFACE_NAME": "no-such-0"}) is None
    assert network_interface({"SM_NETWORK_INTERFACE_NAME": "lo"}) == "lo"
