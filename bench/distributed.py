"""Time to the first training step of `gpuproof run` with torchrun, next to plain torchrun.

    python bench/distributed.py [--rounds 5]

One host with two ranks, and two hosts with one rank each; plain torchrun runs the two hosts as two processes on loopback. Measured
in pairs, one after the other on the same machine. Aim: at most 0.5 s more per host. Medians go to standard output and to
bench/results.
"""

from __future__ import annotations

import argparse
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

RESULTS = Path(__file__).parent / "results"
GPUPROOF = str(Path(sys.executable).with_name("gpuproof"))
TORCHRUN = [sys.executable, "-m", "torch.distributed.run"]
SCRIPT = """
import time
import torch, torch.distributed
torch.distributed.init_process_group("gloo")
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(2, 1))
model(torch.ones(1, 2)).sum().backward()
if torch.distributed.get_rank() == 0:
    print(f"first step {time.time()}", flush=True)
torch.distributed.destroy_process_group()
"""


@dataclass(frozen=True)
class Case:
    """What is measured.

    Args:
        hosts: number of hosts.
        ranks: processes on each.
    """

    hosts: int
    ranks: int

    @property
    def name(self) -> str:
        """In words."""
        return f"{self.hosts} host{'s' * (self.hosts > 1)}, {self.ranks} rank{'s' * (self.ranks > 1)} each"


def main() -> None:
    """Measure all cases, print and write them."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=5, help="pairs of each case")
    rounds = parser.parse_args().rounds
    load = os.getloadavg()[0]
    rows: list[dict[str, object]] = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "train.py").write_text(SCRIPT)
        for case in (Case(1, 2), Case(2, 1)):
            gpuproof(folder, case)  # builds the agent's file, and torch's bytecode
            pairs = [(plain(folder, case), gpuproof(folder, case)) for _ in range(rounds)]
            rows.append(summary(case, pairs))
            print(
                f"{case.name}: torchrun {rows[-1]['torchrun_s']} s, gpuproof run {rows[-1]['gpuproof_s']} s, "
                f"{rows[-1]['difference_per_host_s']} s more per host, ratio {rows[-1]['ratio']}",
                flush=True,
            )
            write(rows, load, rounds)


def write(rows: list[dict[str, object]], load: float, rounds: int) -> None:
    """Write the results so far."""
    document = {
        "machine": f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}",
        "date": time.strftime("%Y-%m-%d"),
        "load_before": round(load, 1),
        "rounds": rounds,
        "cases": rows,
    }
    RESULTS.mkdir(exist_ok=True)
    file = RESULTS / f"distributed-{platform.machine()}-{os.cpu_count()}-cores.json"
    file.write_text(json.dumps(document, indent=1) + "\n")


def summary(case: Case, pairs: list[tuple[float, float]]) -> dict[str, object]:
    """Medians of the pairs, and of their own differences and ratios."""
    return {
        "case": case.name,
        "torchrun_s": round(statistics.median(pair[0] for pair in pairs), 2),
        "gpuproof_s": round(statistics.median(pair[1] for pair in pairs), 2),
        "difference_per_host_s": round(statistics.median(b - a for a, b in pairs) / case.hosts, 2),
        "ratio": round(statistics.median(b / a for a, b in pairs), 2),
    }


def plain(folder: Path, case: Case) -> float:
    """Seconds from the start of plain torchrun to the first step."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    options = ["--nnodes", str(case.hosts), "--nproc_per_node", str(case.ranks)]
    if case.hosts > 1:
        options += ["--master_addr", "127.0.0.1", "--master_port", str(port)]
    began = time.time()
    started = [
        subprocess.Popen(
            [*TORCHRUN, *options, *(["--node_rank", str(host)] if case.hosts > 1 else []), "train.py"],
            cwd=folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        for host in range(case.hosts)
    ]
    printed = "".join(process.communicate(timeout=600)[0] for process in started)
    return first_step(printed) - began


def gpuproof(folder: Path, case: Case) -> float:
    """Seconds from the start of `gpuproof run` to the first step."""
    command = [GPUPROOF, "run", "train.py", "--distribution", "torchrun"]
    command += ["--processes-per-host", str(case.ranks), "--instance-count", str(case.hosts)]
    environment = {
        **os.environ,
        "XDG_STATE_HOME": str(folder / "state"),
        "XDG_CACHE_HOME": str(folder / "cache"),
    }
    began = time.time()
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=600, check=True
    )
    return first_step(done.stdout) - began


def first_step(printed: str) -> float:
    """When the first step was done, in Unix time."""
    return float(printed.partition("first step ")[2].split()[0])


if __name__ == "__main__":
    main()
