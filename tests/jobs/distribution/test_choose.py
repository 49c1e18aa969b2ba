"""`auto` follows what the script uses and the machine."""

from __future__ import annotations

import pytest

from gpuproof.jobs.distribution.choose import ONE_PROCESS, STRATEGY, ScriptUse, choose
from gpuproof.jobs.distribution.launchers import LAUNCHERS


def chosen(gpus: int, hosts: int, *launchers: str) -> str:
    return choose(
        [ScriptUse(launcher, "uses it", "train.py") for launcher in launchers], "train.py", gpus, hosts
    ).launcher


@pytest.mark.parametrize(
    ("launchers", "one_host", "two_hosts"),
    [
        (["torchrun"], "torchrun", "torchrun"),
        (["mirrored"], "mirrored", "none"),
        (["multi_worker_mirrored"], "multi_worker_mirrored", "multi_worker_mirrored"),
        (["mirrored", "multi_worker_mirrored"], "mirrored", "multi_worker_mirrored"),
        (["parameter_server"], "parameter_server", "parameter_server"),
        ([STRATEGY], "mirrored", "multi_worker_mirrored"),
        (["torchrun", "mpi"], "mpi", "mpi"),
        (["torchrun", "none"], "none", "none"),
        ([ONE_PROCESS], "none", "none"),
        ([], "none", "none"),
    ],
)
def test_the_launcher_follows_the_script_and_the_hosts(
    launchers: list[str], one_host: str, two_hosts: str
) -> None:
    assert chosen(4, 1, *launchers) == one_host
    assert chosen(4, 2, *launchers) == two_hosts
    assert chosen(0, 2, *launchers) == two_hosts
    assert {chosen(4, hosts, *launchers) for hosts in (1, 2)} <= set(LAUNCHERS)


@pytest.mark.parametrize("gpus", [0, 1])
def test_one_gpu_needs_no_launcher(gpus: int) -> None:
    assert chosen(gpus, 1, "torchrun") == "none"


def test_the_reason_is_one_line() -> None:
    use = ScriptUse("torchrun", "uses torch.distributed", "train.py")
    assert (
        choose([use], "train.py", 4, 2).because
        == "train.py uses torch.distributed; 4 GPUs on each of 2 hosts"
    )
    assert choose([use], "train.py", 1, 1).because == "1 GPU on one host"
    unknown = choose([], "train.py", 0, 2)
    assert not unknown.is_certain
    assert unknown.because == (
        "train.py uses none of torch.distributed, tf.distribute and MPI; no GPU on each of 2 hosts"
    )
