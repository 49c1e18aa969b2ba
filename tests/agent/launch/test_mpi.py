from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from gpuproof.agent.contract import Machine
from gpuproof.agent.job import AgentJob
from gpuproof.agent.launch.context import HostLaunch, LaunchContext
from gpuproof.agent.launch.mpi import launch
from gpuproof.agent.launch.shown_command import shown_command
from gpuproof.agent.mpi.config import MpiConfig
from gpuproof.agent.paths import RunPaths

HOSTS = ("algo-2", "algo-1", "algo-3")
JOB = AgentJob(
    run_id="mpi-1",
    job_name="mpi",
    kind="training",
    entry_point="train.py",
    python="/opt/python/bin/python3",
    checkpoints="/opt/ml/checkpoints",
    hosts=HOSTS,
    launcher="mpi",
    cluster_key="ab" * 32,
)


def planned(
    job: AgentJob,
    machine: Machine | None = None,
    script: tuple[str, ...] | None = None,
    interface: str | None = "eth0",
) -> tuple[HostLaunch, MpiConfig]:
    """The launch on this host, and what its program reads."""
    paths = RunPaths(Path("/runs/mpi-1"))
    command = script or (job.python, "train.py", "--epochs", "2")
    started = launch(LaunchContext(job, paths, machine or Machine(8, 4), command, interface))
    document = json.loads(started.files[paths.mpi])
    return started, MpiConfig(
        **{name: tuple(value) if isinstance(value, list) else value for name, value in document.items()}
    )


def test_mpirun_runs_on_the_first_host_and_the_others_wait_for_it():
    first, _ = planned(replace(JOB, current_host="algo-1"))
    other, config = planned(replace(JOB, current_host="algo-2"))
    assert (first.command[2], other.command[2]) == ("--mpi-run", "--mpi-host")
    assert config.hosts == ("algo-1", "algo-2", "algo-3")
    assert (config.first, config.current_host) == ("algo-1", "algo-2")


def test_the_key_is_in_a_private_file_only():
    started, config = planned(JOB)
    assert config.key == JOB.cluster_key
    assert JOB.cluster_key not in " ".join([*started.command, *started.environment.values()])


@pytest.mark.parametrize(("requested", "gpus", "expected"), [(None, 4, 4), (None, 0, 1), (2, 4, 2)])
def test_there_is_one_rank_for_each_gpu_unless_the_job_names_a_number(
    requested: int | None, gpus: int, expected: int
):
    _, config = planned(replace(JOB, processes_per_host=requested), Machine(8, gpus))
    assert config.processes == expected


def test_a_rank_runs_the_script_in_the_agents_program_with_the_scripts_interpreter():
    started, _ = planned(JOB)
    rank = started.command[4:]
    assert rank[0] == JOB.python
    assert rank[2:] == ("--watched-rank", "train.py", "--epochs", "2")
    assert shown_command(started.command) == ["mpirun", JOB.python, "train.py", "--epochs", "2"]


def test_a_script_that_is_not_python_is_started_as_it_is():
    shell = ("/bin/sh", "-c", "./train.sh")
    started, _ = planned(JOB, script=shell)
    assert started.command[4:] == shell


def test_hosts_in_one_network_use_loopback_and_have_a_port_each():
    addresses = dict.fromkeys(HOSTS, "127.0.0.1")
    _, config = planned(replace(JOB, shared_network=True, addresses=addresses))
    assert config.interface == "lo"
    endpoints = {config.endpoint(host) for host in config.others}
    assert len(endpoints) == 2
    assert {address for address, _ in endpoints} == {"127.0.0.1"}


def test_an_interface_that_the_host_lacks_is_not_named():
    assert planned(JOB, interface="ens5")[1].interface == "ens5"
    assert planned(JOB, interface=None)[1].interface == ""


def test_instance_types_with_efa_have_its_variables():
    p4d, g5, local = (
        planned(JOB, Machine(8, 1, {"current_instance_type": name} if name else {}))[1].variables
        for name in ("ml.p4d.24xlarge", "ml.g5.48xlarge", None)
    )
    assert p4d == {"FI_PROVIDER": "efa", "NCCL_PROTO": "simple", "FI_EFA_USE_DEVICE_RDMA": "1"}
    assert g5 == {"FI_PROVIDER": "efa", "NCCL_PROTO": "simple"}
    assert local == {}


def test_mpirun_has_to_be_there():
    started, _ = planned(JOB)
    assert "Open MPI" in started.programs["mpirun"]
