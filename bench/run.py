"""Overhead of `gpuproof run` over a bare `python script.py`, and response times of the quick commands.

    python bench/run.py [--rounds 15]

Everything is measured in pairs, one after the other on the same machine; medians and their ratios are printed. Aims:
0.3 s in all around a script that does nothing; 1.5 times the time of writing to a file for a million lines, with an
agent under 60 MB; `gpuproof --help` under 0.15 s; `gpuproof ps` with 1,000 runs under 0.3 s.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

GPUPROOF = [str(Path(sys.executable).with_name("gpuproof"))]
STAMPS = "import time\nprint(time.time(), flush=True)\nprint(time.time(), flush=True)\n"
LINES = 1_000_000
# Before it ends, it reads the memory use of the agent, its grandparent.
MILLION = f"""
import json, os
for number in range({LINES}):
    print(f"step {{number}} loss 0.123456")
if "SM_MODEL_DIR" in os.environ:
    def status(pid):
        return dict(line.split(":", 1) for line in open(f"/proc/{{pid}}/status"))
    agent = status(status(os.getppid())["PPid"].strip())
    with open("/opt/ml/output/data/agent.json", "w") as file:
        json.dump(int(agent["VmHWM"].split()[0]) * 1024, file)
"""


@dataclass(frozen=True)
class Stamps:
    """When a command began, when its script printed its first and its last line, and when it ended, in Unix time."""

    began: float
    first: float
    last: float
    ended: float


@dataclass(frozen=True)
class Sandbox:
    """A working folder, and the environment of a new user."""

    folder: Path
    environment: dict[str, str]

    def seconds(self, command: list[str], output: Path | None = None) -> float:
        """Wall time of a command that must succeed."""
        with (output or Path(os.devnull)).open("wb") as sink:
            began = time.perf_counter()
            subprocess.run(
                command,
                cwd=self.folder,
                env=self.environment,
                stdout=sink,
                stderr=subprocess.DEVNULL,
                check=True,
            )
            return time.perf_counter() - began

    def gpuproof(self, *words: str) -> str:
        """What a `gpuproof` command prints."""
        return subprocess.run(
            [*GPUPROOF, *words],
            cwd=self.folder,
            env=self.environment,
            capture_output=True,
            text=True,
            check=True,
        ).stdout


def main() -> None:
    """Measure everything and print it."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=15, help="pairs of each measurement")
    rounds = parser.parse_args().rounds
    print(
        f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}, {rounds} rounds"
    )
    with tempfile.TemporaryDirectory() as name:
        sandbox = _sandbox(Path(name))
        bench_start_and_end(sandbox, rounds)
        bench_output(sandbox, max(3, rounds // 5))
        bench_commands(sandbox, rounds)


def bench_start_and_end(sandbox: Sandbox, rounds: int) -> None:
    """Time to the script's first line, and from its last line to the end, with and without GPUproof, and its parts."""
    (sandbox.folder / "stamps.py").write_text(STAMPS)
    bare = [sys.executable, "stamps.py"]
    with_gpuproof = [*GPUPROOF, "run", "stamps.py"]
    _stamps(sandbox, with_gpuproof)
    readings = [
        (_stamps(sandbox, bare), _stamps(sandbox, with_gpuproof), _states(sandbox)) for _ in range(rounds)
    ]
    for name, start, end in (
        ("to the first line", "began", "first"),
        ("from the last line", "last", "ended"),
        ("in all", "began", "ended"),
    ):
        alone, gpuproof = (
            statistics.median(
                getattr(reading[which], end) - getattr(reading[which], start) for reading in readings
            )
            for which in (0, 1)
        )
        print(
            f"{name:<20} bare {alone:6.3f} s   gpuproof run {gpuproof:6.3f} s   difference {gpuproof - alone:6.3f} s"
        )
    for name, start, end in (
        ("plan and check", "began", "created"),
        ("start of the agent", "created", "started"),
        ("/opt/ml", "started", "script_started"),
        ("start of the script", "script_started", "first"),
        ("results and verdict", "last", "ended"),
        ("end of the command", "ended", "command_ended"),
    ):
        times = [
            {
                **states,
                "began": stamps.began,
                "first": stamps.first,
                "last": stamps.last,
                "command_ended": stamps.ended,
            }
            for _, stamps, states in readings
        ]
        print(f"  {name:<20} {statistics.median(run[end] - run[start] for run in times):6.3f} s")


def bench_output(sandbox: Sandbox, rounds: int) -> None:
    """A million lines through GPUproof against the same script writing to a file."""
    (sandbox.folder / "million.py").write_text(MILLION)
    # AWS's images set PYTHONUNBUFFERED, and so does GPUproof, so that lines appear as soon as they are printed.
    direct = Sandbox(sandbox.folder, {**sandbox.environment, "PYTHONUNBUFFERED": "1"})
    log = sandbox.folder / "log.txt"
    pairs = [
        (
            direct.seconds([sys.executable, "million.py"], log),
            sandbox.seconds([*GPUPROOF, "run", "million.py"], log),
            sandbox.seconds([sys.executable, "million.py"], log),
        )
        for _ in range(rounds)
    ]
    ratio = statistics.median(gpuproof / alone for alone, gpuproof, _ in pairs)
    buffered = statistics.median(gpuproof / alone for _, gpuproof, alone in pairs)
    print(
        f"{LINES:,} lines         {ratio:.2f} times the same script writing to a file, line by line as here"
    )
    print(
        f"{'':<20} {buffered:.2f} times the same with Python's buffer of 8 KiB, which shows no line in time"
    )
    run = json.loads(sandbox.gpuproof("show", "--format", "json"))
    sandbox.gpuproof("pull", "-x", "--to", "pulled")
    memory = json.loads((sandbox.folder / "pulled" / "output" / "agent.json").read_text())
    print(f"{'':<20} agent at most {memory / 1e6:.0f} MB ({run['run']['status']})")


def bench_commands(sandbox: Sandbox, rounds: int) -> None:
    """`gpuproof --help`, and `gpuproof ps` with a thousand runs, compared with a Python that does nothing."""
    runs = Path(sandbox.environment["XDG_STATE_HOME"]) / "gpuproof" / "runs"
    pattern = json.loads(next(runs.glob("*/run.json")).read_text())
    for number in range(1_000 - len(list(runs.iterdir()))):
        folder = runs / f"old-{number:04}"
        folder.mkdir()
        (folder / "run.json").write_text(json.dumps({**pattern, "id": folder.name, "created": number}))
    for name, words in (("gpuproof --help", ["--help"]), ("gpuproof ps, 1000 runs", ["ps"])):
        sandbox.seconds([*GPUPROOF, *words])
        pairs = [
            (sandbox.seconds([sys.executable, "-c", "pass"]), sandbox.seconds([*GPUPROOF, *words]))
            for _ in range(rounds)
        ]
        nothing = statistics.median(pair[0] for pair in pairs)
        took = statistics.median(pair[1] for pair in pairs)
        print(f"{name:<20} {took:.3f} s   ({took / nothing:.1f} times `python -c pass`)")


def _sandbox(folder: Path) -> Sandbox:
    environment = {
        **os.environ,
        "HOME": str(folder),
        "XDG_STATE_HOME": str(folder / "state"),
        "XDG_CACHE_HOME": str(folder / "cache"),
    }
    # As on a user's machine: bytecode is cached, and output is buffered unless the user disabled it.
    for name in ("PYTHONDONTWRITEBYTECODE", "PYTHONUNBUFFERED", "GPUPROOF_STATE_DIR", "GPUPROOF_CACHE_DIR"):
        environment.pop(name, None)
    (folder / "project").mkdir()
    return Sandbox(folder / "project", environment)


def _stamps(sandbox: Sandbox, command: list[str]) -> Stamps:
    began = time.time()
    done = subprocess.run(
        command, cwd=sandbox.folder, env=sandbox.environment, capture_output=True, text=True, check=True
    )
    ended = time.time()
    first, last = map(float, done.stdout.split())
    return Stamps(began, first, last, ended)


def _states(sandbox: Sandbox) -> dict[str, float]:
    """When each state of the newest run began, in Unix time."""
    return json.loads(sandbox.gpuproof("show", "--format", "json"))["run"]


if __name__ == "__main__":
    main()
