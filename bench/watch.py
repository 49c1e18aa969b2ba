"""What the prefix `gpuproof watch` costs: CPU time while a command runs, its start, and output that passes through a terminal.

    python bench/watch.py [--seconds 60] [--gpus 4] [--megabytes 50]

The GPUs are the stub NVML of tests/support, so that the figure is GPUproof's own work; a real driver adds its own. The command sleeps, and
so all CPU time is the prefix's. Aim: under 1 % of one core. The terminal is read by this process, as fast as it can.
"""

import argparse
import importlib
import os
import pty
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

FAKES = Path(__file__).resolve().parent.parent / "tests"
AIM_PERCENT = 1.0
WATCH = (sys.executable, "-m", "gpuproof", "watch", "--no-require-gpu", "--")


def main() -> int:
    """Prints the figures; returns 1 where the aim is missed."""
    options = _arguments()
    sys.path.insert(0, str(FAKES))
    stub = importlib.import_module("support.nvml_stub")
    with tempfile.TemporaryDirectory() as folder:
        scenario = stub.Scenario(Path(folder) / "gpus.txt").gpus(options.gpus)
        for index in range(options.gpus):
            scenario.at(0, index, util=80, memory_mib=8000, power_w=250)
        scenario.run_in_real_time()
        environment = {
            **os.environ,
            **scenario.environment(stub.build_library(Path(folder))),
            "TERM": "xterm",
        }
        environment.pop("CI", None)
        shares: list[float] = []
        for name, run in (("pipes", _cpu_with_pipes), ("terminal", _cpu_on_terminal)):
            start = min(run(["true"], environment) for _ in range(3))
            total = run(["sleep", str(options.seconds)], environment)
            shares.append(100 * (total - start) / options.seconds)
            print(
                f"{name}: {shares[-1]:.2f} % of a core over {options.seconds:.0f} s with {options.gpus} GPUs, and "
                f"{1000 * start:.0f} ms of CPU time once"
            )
        size = options.megabytes * 1_000_000
        bare, watched = (
            min(
                _seconds_of_output([*prefix, "head", "-c", str(size), "/dev/zero"], environment)
                for _ in range(3)
            )
            for prefix in ((), WATCH)
        )
        print(
            f"{options.megabytes} MB through a terminal: {bare:.2f} s without the prefix, {watched:.2f} s with it "
            f"({watched / bare:.2f} times as long, start included)"
        )
    return int(max(shares) >= AIM_PERCENT)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="What the prefix costs.")
    parser.add_argument("--seconds", type=float, default=60, help="how long the command runs")
    parser.add_argument("--gpus", type=int, default=4)
    parser.add_argument("--megabytes", type=int, default=50, help="output of the command on a terminal")
    return parser.parse_args()


def _cpu_with_pipes(command: Sequence[str], environment: Mapping[str, str]) -> float:
    process = subprocess.Popen(
        [*WATCH, *command], env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    _, _, usage = os.wait4(process.pid, 0)
    return usage.ru_utime + usage.ru_stime


def _cpu_on_terminal(command: Sequence[str], environment: Mapping[str, str]) -> float:
    pid = _on_terminal([*WATCH, *command], environment)
    _, _, usage = os.wait4(pid, 0)
    return usage.ru_utime + usage.ru_stime


def _seconds_of_output(command: Sequence[str], environment: Mapping[str, str]) -> float:
    began = time.perf_counter()
    os.waitpid(_on_terminal(command, environment), 0)
    return time.perf_counter() - began


def _on_terminal(command: Sequence[str], environment: Mapping[str, str]) -> int:
    """Run a command on a terminal and read all its output; returns its process id."""
    pid, master = pty.fork()
    if pid == 0:
        os.execvpe(command[0], list(command), dict(environment))
    try:
        while os.read(master, 1 << 16):
            pass
    except OSError:
        pass  # the command has ended
    os.close(master)
    return pid


if __name__ == "__main__":
    sys.exit(main())
