"""Time to the first training step of `gpuproof run` with torchrun and MPI, next to plain torchrun and mpirun.

    python bench/distributed.py [--rounds 5] [--launcher torchrun|mpi]

One host with two ranks, and two hosts with one rank each. Plain torchrun runs the two hosts as two processes on loopback; plain
mpirun, which would need ssh, runs their ranks on one host. Measured in pairs, one after the other on the same machine, again
while other programs disturb them; the results have their share of the processors. Aim: at most 0.5 s more per host. Medians go
to standard output and to bench/results, which keeps the other launcher's.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import platform
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from gpuproof.util.process_tree import adopt_orphans

RESULTS = Path(__file__).parent / "results"
GPUPROOF = str(Path(sys.executable).with_name("gpuproof"))
TORCHRUN = [sys.executable, "-m", "torch.distributed.run"]
TORCHRUN_SCRIPT = """
import time
import torch, torch.distributed
torch.distributed.init_process_group("gloo")
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(2, 1))
model(torch.ones(1, 2)).sum().backward()
if torch.distributed.get_rank() == 0:
    print(f"first step {time.time()}", flush=True)
torch.distributed.destroy_process_group()
"""
# Without torch, whose import takes longer than all the rest: the difference is the launcher's.
MPI_SCRIPT = """
import time
import numpy
from mpi4py import MPI
gradient = MPI.COMM_WORLD.allreduce(numpy.ones(2))
if MPI.COMM_WORLD.rank == 0:
    print(f"first step {time.time()}", flush=True)
"""
SCRIPTS = {"torchrun": TORCHRUN_SCRIPT, "mpi": MPI_SCRIPT}
DISTURBED = 0.1
"""Share of the processors that other programs may use during a measurement."""
MPIRUN = [str(Path(sys.executable).with_name("mpirun")), "--allow-run-as-root", "--bind-to", "none"]


@dataclass(frozen=True)
class Case:
    """What is measured.

    Args:
        launcher: torchrun or mpi.
        hosts: number of hosts.
        ranks: processes on each.
    """

    launcher: str
    hosts: int
    ranks: int

    @property
    def name(self) -> str:
        """In words."""
        hosts = f"{self.hosts} host{'s' * (self.hosts > 1)}"
        return f"{self.launcher}: {hosts}, {self.ranks} rank{'s' * (self.ranks > 1)} each"


def main() -> None:
    """Measure all cases, print and write them."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=5, help="pairs of each case")
    parser.add_argument("--launcher", choices=SCRIPTS, action="append", help="only this one")
    arguments = parser.parse_args()
    adopt_orphans()
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # users have bytecode
    for launcher in arguments.launcher or SCRIPTS:
        with tempfile.TemporaryDirectory() as name:
            measure(launcher, Path(name), arguments.rounds)


def measure(launcher: str, folder: Path, rounds: int) -> None:
    """Measure the cases of one launcher, print and write them."""
    load = round(os.getloadavg()[0], 1)
    (folder / "train.py").write_text(SCRIPTS[launcher])
    for case in (Case(launcher, 1, 2), Case(launcher, 2, 1)):
        gpuproof(folder, case)  # builds the agent's file, and torch's bytecode
        row = summary(case, least_disturbed_pairs(folder, case, rounds), load)
        print(
            f"{case.name}: plain {row['plain_s']} s, gpuproof run {row['gpuproof_s']} s, "
            f"{row['difference_per_host_s']} s more per host, ratio {row['ratio']}",
            flush=True,
        )
        write(row)


@dataclass(frozen=True)
class Pair:
    """One measurement of both.

    Args:
        plain: seconds to the first step of the plain launcher.
        gpuproof: of `gpuproof run`.
        others: share of the processors that other programs used meanwhile.
    """

    plain: float
    gpuproof: float
    others: float


def least_disturbed_pairs(folder: Path, case: Case, rounds: int) -> list[Pair]:
    """Measure until enough pairs were hardly disturbed by other programs, at most three times as often; the best ones."""
    pairs: list[Pair] = []
    while len(pairs) < 3 * rounds and sum(pair.others < DISTURBED for pair in pairs) < rounds:
        wait_for_idle_machine()
        began, before, own = time.time(), busy_seconds(), own_seconds()
        seconds = plain(folder, case), gpuproof(folder, case)
        others = busy_seconds() - before - (own_seconds() - own)
        pairs.append(Pair(*seconds, others / (time.time() - began) / (os.cpu_count() or 1)))
        print(f"{case.name}: {pairs[-1]}", file=sys.stderr, flush=True)
    return sorted(pairs, key=lambda pair: pair.others)[:rounds]


def wait_for_idle_machine() -> None:
    """Wait until the processors do little for two seconds, at most half a minute."""
    for _ in range(15):
        before = busy_seconds()
        time.sleep(2)
        if busy_seconds() - before < DISTURBED * 2 * (os.cpu_count() or 1):
            return


def busy_seconds() -> float:
    """Processor seconds that all programs have used."""
    user, nice, system, _, _, *interrupts = map(int, Path("/proc/stat").read_text().split()[1:8])
    return (user + nice + system + sum(interrupts)) / os.sysconf("SC_CLK_TCK")


def collect_agents() -> None:
    """Wait for agents, which `gpuproof run` does not: their processor time then counts as this program's."""
    with contextlib.suppress(ChildProcessError):
        while True:
            os.waitpid(-1, 0)


def own_seconds() -> float:
    """Processor seconds that this program and the programs that it has started have used."""
    return sum(os.times()[:4])


def write(row: dict[str, object]) -> None:
    """Write a case's results into the file of this kind of machine."""
    RESULTS.mkdir(exist_ok=True)
    file = RESULTS / f"distributed-{platform.machine()}-{os.cpu_count()}-cores.json"
    cases = {case["case"]: case for case in json.loads(file.read_text())["cases"]} if file.exists() else {}
    cases[row["case"]] = row
    document = {
        "machine": f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}",
        "cases": [*cases.values()],
    }
    file.write_text(json.dumps(document, indent=1) + "\n")


def summary(case: Case, pairs: list[Pair], load: float) -> dict[str, object]:
    """Medians of the pairs, and of their own differences and ratios.

    Args:
        load: the machine's load average before the measurement.
    """
    differences = [pair.gpuproof - pair.plain for pair in pairs]
    return {
        "case": case.name,
        "date": time.strftime("%Y-%m-%d"),
        "load_before": load,
        "rounds": len(pairs),
        "others_share": round(max(pair.others for pair in pairs), 2),
        "plain_s": round(statistics.median(pair.plain for pair in pairs), 2),
        "gpuproof_s": round(statistics.median(pair.gpuproof for pair in pairs), 2),
        "difference_per_host_s": round(statistics.median(differences) / case.hosts, 2),
        "ratio": round(statistics.median(pair.gpuproof / pair.plain for pair in pairs), 2),
    }


def plain(folder: Path, case: Case) -> float:
    """Seconds from the start of plain torchrun or mpirun to the first step."""
    commands = [mpirun_command(case)] if case.launcher == "mpi" else torchrun_commands(case)
    began = time.time()
    started = [
        subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        for command in commands
    ]
    printed = "".join(process.communicate(timeout=600)[0] for process in started)
    return first_step(printed) - began


def torchrun_commands(case: Case) -> list[list[str]]:
    """One command for each host."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    options = ["--nnodes", str(case.hosts), "--nproc_per_node", str(case.ranks)]
    if case.hosts == 1:
        return [[*TORCHRUN, *options, "train.py"]]
    options += ["--master_addr", "127.0.0.1", "--master_port", str(port)]
    return [[*TORCHRUN, *options, "--node_rank", str(host), "train.py"] for host in range(case.hosts)]


def mpirun_command(case: Case) -> list[str]:
    """The command for as many ranks on this machine."""
    ranks = case.hosts * case.ranks
    return [*MPIRUN, "--host", f"localhost:{ranks}", "-np", str(ranks), sys.executable, "train.py"]


def gpuproof(folder: Path, case: Case) -> float:
    """Seconds from the start of `gpuproof run` to the first step."""
    command = [GPUPROOF, "run", "train.py", "--distribution", case.launcher]
    command += ["--processes-per-host", str(case.ranks), "--instance-count", str(case.hosts)]
    environment = {
        **os.environ,
        "XDG_STATE_HOME": str(folder / "state"),
        "XDG_CACHE_HOME": str(folder / "cache"),
    }
    began = time.time()
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=600)
    collect_agents()
    if done.returncode:
        sys.exit(
            f"{case.name}: `{' '.join(command)}` exited with {done.returncode}\n{done.stdout}{done.stderr}"
        )
    return first_step(done.stdout) - began


def first_step(printed: str) -> float:
    """When the first step was done, in Unix time."""
    return float(printed.partition("first step ")[2].split()[0])


if __name__ == "__main__":
    main()
