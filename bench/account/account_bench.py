"""What the benches of commands that read a whole account share: an emulated account in 20 regions, in a process of its own, and readings."""

from __future__ import annotations

import argparse
import contextlib
import importlib
import json
import os
import platform
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Generator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

BUSY_LOAD = 0.5
RESULTS = Path(__file__).parents[1] / "results"
REGIONS = 20
_SERVER = "--serve"


@dataclass(frozen=True)
class Reading:
    """One run of the command.

    Args:
        seconds: from the command to its end.
        client_cpu: processor seconds of the command.
        emulator_cpu: processor seconds of the emulator meanwhile.
        requests: the number of requests that arrived.
        throttled: how many of them were rejected.
    """

    seconds: float
    client_cpu: float
    emulator_cpu: float
    requests: int
    throttled: int


@dataclass(frozen=True)
class AccountBench:
    """A command to time on an account.

    Args:
        script: the bench's own file, and the name of its results.
        command: a command of `gpuproof` that prints JSON and takes `--region`.
        sizes: of the account, for the results, with `regions`.
        title: what is listed.
        aim: seconds.
        throttled_services: services that reject requests above the rate.
        add: fills a region of the emulated account; the third argument is the module `support.emulated_account`.
        check: why the command's document is wrong, if it is.
    """

    script: Path
    command: str
    sizes: dict[str, int]
    title: str
    aim: float
    throttled_services: Sequence[str]
    add: Callable[[Any, str, Any], None]
    check: Callable[[dict[str, Any]], str | None]

    def main(self, description: str | None, rate: int) -> int:
        """Measure, print, save if asked to; return 1 where the aim is missed.

        Args:
            rate: default of `--rate`: requests a second in a region.
        """
        if sys.argv[1:2] == [_SERVER]:
            self._serve(Path(sys.argv[2]))
            return 0
        parser = argparse.ArgumentParser(
            description=description, formatter_class=argparse.RawDescriptionHelpFormatter
        )
        parser.add_argument("--rounds", type=int, default=3, help="runs of each kind")
        parser.add_argument(
            "--rate", type=int, default=rate, help="requests a second in a region, then throttling"
        )
        parser.add_argument("--latency", type=float, default=0.0, help="milliseconds before each answer")
        parser.add_argument("--save", action="store_true", help="write bench/results/")
        arguments = parser.parse_args()
        load = os.getloadavg()[0]
        limits = [f"throttling,service={name},rate={arguments.rate}" for name in self.throttled_services]
        slow = [f"slow,seconds={arguments.latency / 1000}"] if arguments.latency else []
        found: dict[str, Reading] = {}
        with tempfile.TemporaryDirectory() as folder, self._server(Path(folder)) as server:
            self._measure(server)  # byte code, caches
            for name, faults in (("unthrottled", []), ("throttled", limits)):
                found[name] = _median(
                    [self._measure(server, *faults, *slow) for _ in range(arguments.rounds)]
                )
        print(
            f"{platform.machine()}, {os.cpu_count()} cores, {arguments.rounds} rounds, load {load:.1f} before"
        )
        print(f"{self.title} in {REGIONS} regions (aim: under {self.aim:g} s)")
        for name, reading in found.items():
            print(
                f"{name:<12} {reading.seconds:5.1f} s   processor: command {reading.client_cpu:.1f} s, emulator {reading.emulator_cpu:.1f} s   "
                f"{reading.requests} requests, {reading.throttled} throttled"
            )
        if arguments.save:
            self._save(found, load, arguments)
        return 0 if all(reading.seconds < self.aim for reading in found.values()) else 1

    def _measure(self, server: _Server, *faults: str) -> Reading:
        before = server.send(faults=list(faults))
        used = _children_cpu()
        began = time.monotonic()
        regions = [f"--region={name}" for name in server.regions]
        done = subprocess.run(
            [sys.executable, "-m", "gpuproof", self.command, *regions, "--format", "json"],
            env=server.environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        seconds = time.monotonic() - began
        cpu = _children_cpu() - used
        after = server.send(faults=[])
        problem = done.stderr if done.returncode else self.check(json.loads(done.stdout))
        if problem is not None:
            raise SystemExit(f"gpuproof {self.command}: {problem}")
        return Reading(seconds, cpu, after["cpu"] - before["cpu"], after["requests"], after["throttled"])

    @contextlib.contextmanager
    def _server(self, folder: Path) -> Generator[_Server]:
        process = subprocess.Popen(
            [sys.executable, str(self.script), _SERVER, str(folder)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        try:
            assert process.stdout is not None
            first = json.loads(process.stdout.readline())
            inherited = {
                name: value
                for name, value in os.environ.items()
                if not name.startswith(("AWS_", "GPUPROOF_"))
            }
            environment = {**inherited, **first["environment"], "GPUPROOF_STATE_DIR": str(folder / "state")}
            yield _Server(process, environment, first["regions"])
        finally:
            assert process.stdin is not None
            process.stdin.close()
            process.wait(60)

    def _serve(self, folder: Path) -> None:
        """Serve the account, which runs nothing, and answer commands from standard input."""
        sys.path.insert(0, str(Path(__file__).parents[2] / "tests"))
        support = importlib.import_module("support.emulated_account")
        with support.emulated_account(folder) as account:
            described = account.client("ec2", "us-east-1").describe_regions()["Regions"]
            regions = sorted(region["RegionName"] for region in described)
            if len(regions) < REGIONS:
                raise SystemExit(f"the emulator has only {len(regions)} regions")
            regions = regions[:REGIONS]
            for region in regions:
                self.add(account, region, support)
            print(json.dumps({"environment": account.environment, "regions": regions}), flush=True)
            for line in sys.stdin:
                answered = account.application._requests  # noqa: SLF001 - counted where they are recorded
                rejected = sum(answer["status"] == 400 for answer in answered)
                answer = {"cpu": time.process_time(), "requests": len(answered), "throttled": rejected}
                answered.clear()
                account.emulator.context.faults.clear()
                for fault in json.loads(line)["faults"]:
                    account.fault(fault)
                print(json.dumps(answer), flush=True)

    def _save(self, found: dict[str, Reading], load: float, arguments: argparse.Namespace) -> None:
        if load > BUSY_LOAD:
            print(f"not saved: the machine is busy (load {load:.1f})")
            return
        path = RESULTS / f"{self.script.stem}-{platform.machine()}-{os.cpu_count()}-cores.json"
        document = {
            **self.sizes,
            "regions": REGIONS,
            "readings": {name: asdict(reading) for name, reading in found.items()},
            "rounds": arguments.rounds,
            "rate": arguments.rate,
            "latency_ms": arguments.latency,
            "load": load,
            "python": platform.python_version(),
        }
        path.write_text(json.dumps(document, indent=2) + "\n")
        print(f"saved {path}")


@dataclass
class _Server:
    """The process of the emulator, which takes commands as lines of JSON and answers each with one."""

    process: subprocess.Popen[str]
    environment: dict[str, str]
    regions: list[str]

    def send(self, **command: Any) -> dict[str, Any]:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        print(json.dumps(command), file=self.process.stdin, flush=True)
        return json.loads(self.process.stdout.readline())


def _children_cpu() -> float:
    # Only the commands: the emulator's process has not ended.
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _median(readings: Sequence[Reading]) -> Reading:
    """The median of each figure."""
    return Reading(
        *(
            statistics.median(values)
            for values in zip(*(asdict(reading).values() for reading in readings), strict=True)
        )
    )
