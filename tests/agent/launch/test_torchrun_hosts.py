"""Real torch on real hosts: what a job of several hosts computes, and how it survives what ends it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.host_agents import Host, HostAgents

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("torchrun-hosts")]

TRAIN = """
import json, os, signal, sys
from pathlib import Path
import torch, gpuproof.runtime as rt

def kill_the_host():
    # The topmost process of this host's agent: its guards end the rest.
    pid = os.getpid()
    while True:
        parent = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
        if b"gpuproof-agent.pyz" not in Path(f"/proc/{parent}/cmdline").read_bytes():
            os.kill(pid, signal.SIGKILL)
            signal.pause()
        pid = parent

first_attempt = os.environ["TORCHELASTIC_RESTART_COUNT"] == "0"
with rt.distributed(allow_cpu=True) as group:
    torch.manual_seed(group.rank)  # the wrapper makes all ranks start with the first one's weights
    model = group.wrap(torch.nn.Linear(2, 1))
    optimizer = torch.optim.SGD(model.parameters(), 0.01)
    data = torch.arange(16.0).reshape(8, 2)
    sampler = group.sampler(data, shuffle=False)
    kept = rt.checkpoint(model=model, optimizer=optimizer)
    began, losses = kept.epoch, []
    for epoch in kept.epochs(4):
        for batch in torch.utils.data.DataLoader(data, batch_size=2, sampler=sampler):
            optimizer.zero_grad()
            loss = model(batch).square().mean()
            loss.backward()
            optimizer.step()
        losses.append(group.reduce(loss.detach(), "mean").item())
        if epoch == 1 and group.rank == group.world_size - 1 and first_attempt:
            if os.environ["END"] == "host":
                kill_the_host()
            if os.environ["END"] == "rank":
                os.kill(os.getpid(), signal.SIGKILL)
    total = group.reduce(torch.tensor([float(group.rank)]), "sum").item()
    names = ("MASTER_ADDR", "MASTER_PORT", "LOCAL_RANK", "GROUP_RANK", "SM_CURRENT_HOST")
    line = json.dumps({
        "rank": group.rank, "world": group.world_size, "began": began, "losses": losses, "total": total,
        "rows": list(sampler), "weight": getattr(model, "module", model).weight.tolist(),
        **{name: os.environ[name] for name in names},
    })
    os.write(1, (line + "\\n").encode())  # ranks share the log
"""
FAILING = """
import os, signal, sys, time
if os.environ["RANK"] == "1":
    if "kill" in sys.argv:
        os.kill(os.getpid(), signal.SIGKILL)
    raise ValueError("no data")
time.sleep(600)
"""


@pytest.fixture(scope="module")
def agents(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HostAgents]:
    made = HostAgents(tmp_path_factory.mktemp("hosts"))
    yield made
    made.kill()


def train(agents: HostAgents, name: str, checkpoints: Path, end: str = "", **job: object) -> list[Host]:
    checkpoints.mkdir(parents=True, exist_ok=True)
    return agents.run(
        name,
        {"train.py": TRAIN},
        2,
        "torchrun",
        {"END": end},
        framework="pytorch",
        checkpoints=str(checkpoints),
        cluster_key="00" * 32,
        stop_grace=20.0,
        **job,
    )


def printed(hosts: list[Host]) -> list[dict[str, object]]:
    """What each rank printed."""
    lines = [line for host in hosts for line in host.log.splitlines() if line.startswith("{")]
    assert lines, "\n".join(host.log for host in hosts)
    return sorted(map(json.loads, lines), key=lambda line: line["rank"])


def test_a_job_resumes_after_a_host_was_killed_and_all_ranks_compute_the_same(agents: HostAgents) -> None:
    checkpoints = agents.folder / "kept"
    survivor, killed = train(agents, "killed", checkpoints, "host", processes_per_host=1)
    assert killed.code < 0
    assert survivor.run["status"] == "Failed"
    assert "algo-2" in survivor.run["failure_reason"]

    hosts = train(agents, "resumed", checkpoints, processes_per_host=2)
    assert [host.code for host in hosts] == [0, 0], "\n".join(host.log for host in hosts)
    ranks = printed(hosts)
    assert [(rank["rank"], rank["world"]) for rank in ranks] == [(rank, 4) for rank in range(4)]
    assert [(rank["GROUP_RANK"], rank["LOCAL_RANK"]) for rank in ranks] == [
        ("0", "0"),
        ("0", "1"),
        ("1", "0"),
        ("1", "1"),
    ]
    assert [rank["SM_CURRENT_HOST"] for rank in ranks] == ["algo-1", "algo-1", "algo-2", "algo-2"]
    assert all((rank["MASTER_PORT"], rank["began"]) == ("7777", 1) for rank in ranks)
    assert all(rank["total"] == 0 + 1 + 2 + 3 for rank in ranks)
    assert all(
        rank["losses"] == ranks[0]["losses"] and rank["weight"] == ranks[0]["weight"] for rank in ranks
    )
    assert sorted(row for rank in ranks for row in rank["rows"]) == [*range(8)]  # type: ignore[attr-defined]


@pytest.mark.nightly
def test_a_rank_that_is_killed_is_restarted_with_those_of_all_hosts(agents: HostAgents) -> None:
    hosts = train(agents, "restarted", agents.folder / "kept-2", "rank", processes_per_host=1, max_restarts=1)
    assert [host.code for host in hosts] == [0, 0], "\n".join(host.log for host in hosts)
    ranks = printed(hosts)
    assert [(rank["rank"], rank["began"], rank["SM_CURRENT_HOST"]) for rank in ranks] == [
        (0, 1, "algo-1"),
        (1, 1, "algo-2"),
    ]
    assert ranks[0]["losses"] == ranks[1]["losses"]


@pytest.mark.parametrize(
    ("how", "reason", "shown"),
    [
        ("raise", "rank 1: ValueError: no data", 'raise ValueError("no data")'),
        ("kill", "rank 1: was killed by SIGKILL; the kernel does that when memory runs out", "ExitCode 1"),
    ],
)
def test_the_rank_that_fails_is_named_and_the_others_end(
    agents: HostAgents, how: str, reason: str, shown: str
) -> None:
    (host,) = agents.run(
        how, {"train.py": FAILING}, 1, "torchrun", framework="pytorch", processes_per_host=2, arguments=[how]
    )
    assert host.run["failure_reason"] == reason
    failure = (host.ml / "output" / "failure").read_text()
    assert shown in failure
    assert failure.endswith(f'Command "torchrun --nnodes 1 --nproc_per_node 2 train.py {how}"')
