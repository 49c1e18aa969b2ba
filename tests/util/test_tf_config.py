"""`TF_CONFIG`: the toolkit's clusters, and the one for scripts that start their own server."""

from __future__ import annotations

import pytest

from gpuproof.util.tf_config import (
    TooFewHosts,
    parameter_server_config,
    separate_server_config,
    server_task,
    with_chief,
    worker_config,
)

HOSTS = ("algo-1", "algo-2", "algo-3", "algo-4")


def address(host: str, port: int) -> str:
    return f"{host}:{port}"


def test_every_host_is_a_worker_and_none_is_the_chief() -> None:
    assert worker_config(HOSTS[:2], 1, address) == {
        "cluster": {"worker": ["algo-1:8890", "algo-2:8890"]},
        "environment": "cloud",
        "task": {"index": 1, "type": "worker"},
    }


def test_a_parameter_server_runs_beside_the_master_and_every_worker() -> None:
    config = parameter_server_config(HOSTS[:2], 0, address)
    assert config["cluster"] == {
        "master": ["algo-1:2222"],
        "ps": ["algo-1:2223", "algo-2:2223"],
        "worker": ["algo-2:2222"],
    }
    assert config["task"] == {"index": 0, "type": "master"}
    assert server_task(config, 1)["task"] == {"index": 1, "type": "ps"}


def test_the_master_becomes_the_chief_of_tensorflow_2() -> None:
    first, second = (with_chief(parameter_server_config(HOSTS[:2], index, address)) for index in (0, 1))
    assert first["cluster"] == second["cluster"]
    assert list(first["cluster"]) == ["chief", "ps", "worker"]
    assert first["task"] == {"index": 0, "type": "chief"}
    assert second["task"] == {"index": 0, "type": "worker"}


@pytest.mark.parametrize(("index", "task"), [(0, "chief 0"), (1, "worker 0"), (2, "worker 1"), (3, "ps 0")])
def test_without_a_launcher_the_first_host_coordinates_and_the_last_serves(index: int, task: str) -> None:
    config = separate_server_config(HOSTS, index, address)
    assert config["cluster"] == {
        "chief": ["algo-1:8890"],
        "worker": ["algo-2:8890", "algo-3:8890"],
        "ps": ["algo-4:8890"],
    }
    assert f"{config['task']['type']} {config['task']['index']}" == task


def test_two_hosts_are_too_few_for_a_server_of_its_own() -> None:
    with pytest.raises(TooFewHosts, match="requires at least three hosts"):
        separate_server_config(HOSTS[:2], 0, address)
