from __future__ import annotations

import itertools
from dataclasses import replace

import pytest

from gpuproof.agent.mpi.command import mpirun_command, parse_version
from gpuproof.agent.mpi.config import MpiConfig

CONFIG = MpiConfig(hosts=("algo-1", "algo-2"), current_host="algo-1", processes=2, interface="eth0")
SCRIPT = ["python3", "train.py", "--note", "a b"]
ENVIRONMENT = {
    "SM_HPS": "{}",
    "SM_CURRENT_HOST": "algo-1",
    "PATH": "/usr/bin",
    "HOME": "/root",
    "AWS_SESSION_TOKEN": "token",
}


def command(config: MpiConfig = CONFIG, version: int = 4) -> list[str]:
    return mpirun_command(config, version, ENVIRONMENT, SCRIPT, agent="/tmp/connect")


def values(words: list[str], option: str) -> list[str]:
    """What follows each use of an option."""
    return [after for word, after in itertools.pairwise(words) if word == option]


def settings(words: list[str]) -> dict[str, str]:
    """All `--mca NAME VALUE` and `--prtemca NAME VALUE`."""
    return {
        words[index + 1]: words[index + 2]
        for index, word in enumerate(words)
        if word in ("--mca", "--prtemca")
    }


def test_the_version_of_open_mpi_is_read_and_another_mpi_has_none():
    assert parse_version("mpirun (Open MPI) 4.1.4\n\nReport bugs to …") == 4
    assert parse_version("mpirun (Open MPI) 5.0.11\n") == 5
    assert parse_version("HYDRA build details:\n    Version: 4.2.0\n") is None


@pytest.mark.parametrize("version", [4, 5])
def test_hosts_slots_and_ranks_are_the_toolkits(version: int):
    words = command(version=version)
    assert values(words, "--host") == ["algo-1:2,algo-2:2"]
    assert values(words, "-np") == ["4"]
    assert words[-4:] == SCRIPT
    assert "--allow-run-as-root" in words


def test_one_rank_per_host_has_plain_host_names():
    assert values(command(replace(CONFIG, processes=1)), "--host") == ["algo-1,algo-2"]


@pytest.mark.parametrize("version", [4, 5])
def test_ranks_have_the_first_hosts_sagemaker_variables_and_credentials(version: int):
    passed = values(command(version=version), "-x")
    assert {"SM_HPS", "SM_CURRENT_HOST", "PATH", "AWS_SESSION_TOKEN"} <= {*passed}
    # mpirun complains about variables that do not exist.
    assert not {"HOME", "LD_LIBRARY_PATH", "AWS_ACCESS_KEY_ID"} & {*passed}
    assert {"NCCL_MIN_NRINGS=4", "NCCL_SOCKET_IFNAME=eth0", "NCCL_DEBUG=INFO"} <= {*passed}


def test_the_interface_is_named_to_open_mpi_4_and_5():
    assert settings(command())["oob_tcp_if_include"] == "eth0"
    assert settings(command(version=5))["prte_if_include"] == "eth0"
    assert settings(command(version=5))["btl_tcp_if_include"] == "eth0"


@pytest.mark.parametrize("version", [4, 5])
def test_hosts_on_one_machine_share_no_memory(version: int):
    assert settings(command(replace(CONFIG, shared_network=True), version))["btl"] == "self,tcp"
    assert settings(command(version=version))["btl"] == "^openib"


def test_without_an_interface_open_mpi_chooses():
    words = " ".join(command(replace(CONFIG, interface="")) + command(replace(CONFIG, interface=""), 5))
    assert "if_include" not in words
    assert "NCCL_SOCKET_IFNAME" not in words


def test_more_variables_reach_all_ranks():
    assert "FI_PROVIDER=efa" in values(command(replace(CONFIG, variables={"FI_PROVIDER": "efa"})), "-x")


def test_the_agent_takes_the_place_of_ssh():
    assert settings(command())["plm_rsh_agent"] == "/tmp/connect"
    assert settings(command(version=5))["plm_ssh_agent"] == "/tmp/connect"


@pytest.mark.parametrize("option", [["--NCCL_DEBUG", "WARN"], ["--NCCL_DEBUG=WARN"]])
def test_nccl_debug_among_the_options_is_the_toolkits_own(option: list[str]):
    words = command(replace(CONFIG, options=("-x", "A=1", *option)))
    assert "NCCL_DEBUG=WARN" in values(words, "-x")
    assert "A=1" in values(words, "-x")
    assert not [word for word in words if word.startswith("--NCCL_DEBUG")]


@pytest.mark.parametrize("option", ["--bind-to", "-bind-to"])
def test_the_users_binding_replaces_ours(option: str):
    words = command(replace(CONFIG, options=(option, "none")))
    assert values(words, "--bind-to") + values(words, "-bind-to") == ["none"]


def test_in_one_network_the_first_host_is_mpiruns_own():
    words = command(replace(CONFIG, shared_network=True, interface="lo"), 5)
    assert values(words, "--host") == ["localhost:2,algo-2:2"]
    assert "prte_if_include" not in words
