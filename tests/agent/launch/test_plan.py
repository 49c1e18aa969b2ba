from __future__ import annotations

import socket
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from gpuproof.agent.contract import Machine
from gpuproof.agent.isolation.isolation import CONTAINER, Isolation
from gpuproof.agent.isolation.reaper import Reaper
from gpuproof.agent.job import AgentJob
from gpuproof.agent.launch import plan_launch
from gpuproof.agent.paths import ContractPaths, RunPaths

JOB = AgentJob(
    run_id="digits-1",
    job_name="digits",
    kind="training",
    entry_point="train.py",
    python="python3",
    checkpoints="/nowhere",
    framework="pytorch",
)
LOOPBACK = Machine(2, 0, {"network_interface_name": next(name for _, name in socket.if_nameindex())})


@pytest.fixture
def reaper() -> Iterator[Reaper]:
    here, there = socket.socketpair()
    with here, there:
        yield Reaper(0, here, 0)


def environment(
    reaper: Reaper,
    job: AgentJob = JOB,
    resolve: bool = True,
    machine: Machine = LOOPBACK,
    **inherited: str,
) -> dict[str, str]:
    isolation = Isolation(reaper, CONTAINER, ContractPaths(), names_resolve=resolve)
    return plan_launch(job, RunPaths(Path("/run")), isolation, machine, inherited).environment


def test_every_pytorch_job_knows_the_first_host_also_without_a_launcher(reaper: Reaper) -> None:
    found = environment(reaper)
    assert (found["MASTER_ADDR"], found["MASTER_PORT"]) == ("algo-1", "7777")
    assert "RANK" not in found
    assert "WORLD_SIZE" not in found
    assert "MASTER_ADDR" not in environment(reaper, replace(JOB, framework="tensorflow"))


def test_an_interface_is_only_named_where_it_exists(reaper: Reaper) -> None:
    assert environment(reaper)["NCCL_SOCKET_IFNAME"] == LOOPBACK.resources["network_interface_name"]
    elsewhere = environment(reaper, machine=Machine(2, 0, {"network_interface_name": "none-such0"}))
    assert "NCCL_SOCKET_IFNAME" not in elsewhere


def test_the_users_variables_take_precedence(reaper: Reaper) -> None:
    job = replace(JOB, launcher="torchrun", environment={"NCCL_DEBUG": "INFO"})
    found = environment(reaper, job, NCCL_PROTO="LL128", MASTER_PORT="1234")
    assert (found["NCCL_DEBUG"], found["NCCL_PROTO"], found["MASTER_PORT"]) == ("INFO", "LL128", "1234")


def test_a_single_host_whose_name_does_not_resolve_is_found_on_loopback(reaper: Reaper) -> None:
    assert environment(reaper, resolve=False)["MASTER_ADDR"] == "127.0.0.1"
    assert environment(reaper)["MASTER_ADDR"] == "algo-1"


def test_ranks_know_their_host_and_where_to_report(reaper: Reaper) -> None:
    job = replace(JOB, launcher="torchrun", hosts=("algo-1", "algo-2"), current_host="algo-2")
    found = environment(reaper, job)
    assert (found["GPUPROOF_RANK_REPORTS"], found["GPUPROOF_HOST"]) == ("/run/ranks", "algo-2")
    assert "GPUPROOF_RANK_REPORTS" not in environment(reaper)


def test_steps_are_timed_unless_the_job_says_no(reaper: Reaper) -> None:
    assert environment(reaper)["GPUPROOF_STEPS"] == "/run/steps"
    assert "GPUPROOF_STEPS" not in environment(reaper, replace(JOB, step_times=False))


class TestRegion:
    """The AWS region that the script's libraries use."""

    def test_is_that_of_the_job(self, reaper: Reaper) -> None:
        found = environment(reaper, replace(JOB, region="eu-west-1"), AWS_DEFAULT_REGION="us-east-1")
        names = ("AWS_REGION", "AWS_DEFAULT_REGION", "SAGEMAKER_REGION")
        assert [found[name] for name in names] == ["eu-west-1"] * 3

    def test_is_else_that_of_the_host(self, reaper: Reaper) -> None:
        found = environment(reaper, AWS_REGION="us-west-2")
        assert (found["AWS_REGION"], found["SAGEMAKER_REGION"]) == ("us-west-2", "us-west-2")
        assert "AWS_DEFAULT_REGION" not in found

    def test_the_jobs_own_variable_takes_precedence(self, reaper: Reaper) -> None:
        job = replace(JOB, region="eu-west-1", environment={"SAGEMAKER_REGION": "eu-north-1"})
        found = environment(reaper, job)
        assert (found["AWS_REGION"], found["SAGEMAKER_REGION"]) == ("eu-west-1", "eu-north-1")

    def test_is_not_made_up(self, reaper: Reaper) -> None:
        assert not [name for name in environment(reaper) if name.endswith("_REGION")]
