"""The launches are held against SageMaker's own toolkits.

`contract/pytorch-toolkit-3.0.0.json` was recorded from `_set_nccl_environment`, `_set_distributed_environment` and
`TorchDistributedRunner._create_command` on each host, with four processes per host.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gpuproof.agent.contract import Machine
from gpuproof.agent.job import AgentJob
from gpuproof.agent.launch import pytorch, shown_command
from gpuproof.agent.launch.context import HostLaunch, LaunchContext
from gpuproof.agent.launch.registry import LAUNCHERS
from gpuproof.agent.paths import RunPaths

RECORDED = json.loads((Path(__file__).parents[1] / "contract" / "pytorch-toolkit-3.0.0.json").read_text())
OURS = {"GLOO_SOCKET_IFNAME"}
JOB = AgentJob(
    run_id="digits-1",
    job_name="digits",
    kind="training",
    entry_point="train.py",
    python="python3",
    checkpoints="/nowhere",
    launcher="torchrun",
    processes_per_host=4,
)


def context(*script: str, interface: str | None = "eth0", **job: Any) -> LaunchContext:
    words = script or ("python3", "train.py", "--lr", "1")
    return LaunchContext(replace(JOB, **job), RunPaths(Path("/run")), Machine(8, 0), words, interface)


def launch(where: LaunchContext) -> HostLaunch:
    return LAUNCHERS[where.job.launcher](where)


def words(where: LaunchContext) -> list[str]:
    return shown_command(launch(where).command)


@pytest.mark.parametrize(
    "recorded",
    RECORDED["launches"],
    ids=[
        f"{row['launcher']}-{row['host']}-of-{len(row['hosts'])}-{row['instance_type']}"
        for row in RECORDED["launches"]
    ],
)
def test_command_and_variables_are_the_toolkits(recorded: dict[str, Any]) -> None:
    where = context(
        hosts=tuple(recorded["hosts"]),
        current_host=recorded["host"],
        launcher=recorded["launcher"],
    )
    where = replace(where, machine=Machine(8, 0, {"current_instance_type": recorded["instance_type"]}))
    variables = {**pytorch.pytorch_variables(where), **launch(where).environment}
    assert {name: value for name, value in variables.items() if name not in OURS} == recorded["environment"]
    if recorded["command"] is not None:
        assert words(where) == recorded["command"]


def test_the_types_with_efa_are_the_toolkits() -> None:
    assert [*pytorch.EFA_TYPES] == RECORDED["efa"]
    assert [*pytorch.EFA_RDMA_TYPES] == RECORDED["efa_rdma"]


def test_ranks_are_started_with_the_jobs_interpreter_and_report_their_failures() -> None:
    command = launch(context("/venv/bin/python", "train.py", python="/venv/bin/python")).command
    assert command[0] == "/venv/bin/python"
    assert command[-2:] == ("--rank", "train.py")
    assert command[1] == command[-3]


def test_a_module_of_a_package_and_a_shell_script_are_started_too() -> None:
    assert words(context("python3", "-m", "package.train", "x"))[-3:] == ["-m", "package.train", "x"]
    shell = words(context("/bin/sh", "-c", "./train.sh --lr 1"))
    assert shell[-4:] == ["--no_python", "/bin/sh", "-c", "./train.sh --lr 1"]


@pytest.mark.parametrize(("gpus", "requested", "expected"), [(4, None, "4"), (4, 2, "2"), (0, None, "1")])
def test_there_is_one_process_per_gpu_unless_the_job_requests_another_number(
    gpus: int, requested: int | None, expected: str
) -> None:
    where = replace(context(processes_per_host=requested), machine=Machine(8, gpus))
    assert words(where)[4] == expected


def test_restarts_on_several_hosts_need_a_rendezvous_that_restarts_all_of_them() -> None:
    where = context(hosts=("algo-1", "algo-2"), current_host="algo-2", max_restarts=2)
    assert " ".join(words(where)) == (
        "torchrun --nnodes 2 --nproc_per_node 4 --rdzv_backend c10d --rdzv_endpoint algo-1:7777 --rdzv_id digits-1 "
        "--rdzv_conf is_host=0 --local_addr algo-2 --max_restarts 2 train.py --lr 1"
    )
    assert launch(where).environment["TORCH_DISABLE_SHARE_RDZV_TCP_STORE"] == "1"
    alone = words(context(max_restarts=1))
    assert alone == [
        "torchrun",
        "--nnodes",
        "1",
        "--nproc_per_node",
        "4",
        "--max_restarts",
        "1",
        "train.py",
        "--lr",
        "1",
    ]


def test_hosts_without_names_meet_at_the_first_ones_address() -> None:
    where = context(
        hosts=("algo-1", "algo-2"),
        current_host="algo-2",
        addresses={"algo-1": "127.0.0.2", "algo-2": "127.0.0.3"},
        shared_network=True,
    )
    assert words(where)[5:9] == ["--master_addr", "127.0.0.2", "--master_port", "7777"]
    assert pytorch.pytorch_variables(where)["MASTER_ADDR"] == "127.0.0.2"


def test_a_job_for_a_type_with_efa_runs_without_it_elsewhere() -> None:
    assert "FI_PROVIDER" not in launch(context(instance_type="ml.p5.48xlarge")).environment


def test_gloo_uses_the_interface_between_hosts_and_none_that_this_host_lacks() -> None:
    assert "GLOO_SOCKET_IFNAME" not in pytorch.pytorch_variables(context())
    two = context(hosts=("algo-1", "algo-2"))
    assert pytorch.pytorch_variables(two)["GLOO_SOCKET_IFNAME"] == "eth0"
    without = pytorch.pytorch_variables(context(hosts=("algo-1", "algo-2"), interface=None))
    assert not {name for name in without if name.endswith("IFNAME")}


@pytest.mark.parametrize(
    ("job", "applies"),
    [
        ({"framework": "pytorch"}, True),
        ({"framework": None}, True),
        ({"framework": "TensorFlow"}, False),
        ({"framework": "keras"}, False),
        ({"framework": "pytorch", "kind": "processing"}, False),
    ],
)
def test_the_variables_are_those_of_training_jobs_of_pytorch_and_of_no_known_framework(
    job: dict[str, Any], applies: bool
) -> None:
    assert pytorch.is_pytorch(context(**job)) is applies


def test_rank_and_world_size_are_left_to_the_launcher_and_the_script() -> None:
    assert not {"RANK", "WORLD_SIZE", "LOCAL_RANK"} & {*pytorch.pytorch_variables(context())}


def test_the_installed_version_of_pytorch_is_passed_on_where_it_is_known() -> None:
    where = replace(context(), machine=Machine(8, 0, torch="2.9.1+cu130"))
    assert pytorch.pytorch_variables(where)["SM_DLC_TORCH_VERSION"] == "2.9.1+cu130"
    assert "SM_DLC_TORCH_VERSION" not in pytorch.pytorch_variables(context())
