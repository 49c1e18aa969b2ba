"""Time of `gpuproof audit` for 1,000 jobs in 20 regions, with and without throttling, and who spends it.

    python bench/audit.py [--rounds 3] [--rate 10] [--latency 0] [--save]

Each region has 35 training jobs (five of them on two hosts), 10 processing and 5 transform jobs of an hour, with values of each host by the
minute. The emulator answers on the same machine, in a process of its own, so that its processor time is a part of what is measured, and is
shown. AWS's network has latency instead: `--latency 50` delays each answer by so many milliseconds. With throttling, SageMaker and
CloudWatch accept `--rate` requests a second in a region, and reject the others with `ThrottlingException`. Aim: under 30 s. `--save`
writes `bench/results/`, unless the machine is busy.
"""

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
from collections import Counter
from collections.abc import Generator
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

AIM_S = 30.0
BUSY_LOAD = 0.5
RESULTS = Path(__file__).parent / "results"
REGIONS = 20
TRAINING, TWO_HOSTS, PROCESSING, TRANSFORM = 35, 5, 10, 5
"""Jobs in each region; some of the training jobs have two hosts."""

MINUTES = 60
SERVER = "--serve"
_ACCOUNT = "123456789012"


@dataclass(frozen=True)
class Reading:
    """One audit.

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


def main() -> int:
    """Measure, print, save if asked to; return 1 where the aim is missed."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=3, help="audits of each kind")
    parser.add_argument("--rate", type=int, default=10, help="requests a second in a region, then throttling")
    parser.add_argument("--latency", type=float, default=0.0, help="milliseconds before each answer")
    parser.add_argument("--save", action="store_true", help="write bench/results/")
    arguments = parser.parse_args()
    load = os.getloadavg()[0]
    found: dict[str, Reading] = {}
    with tempfile.TemporaryDirectory() as folder, _server(Path(folder)) as server:
        words = [f"--region={name}" for name in server.regions]
        _measure(server, words)  # byte code, caches
        limits = [f"throttling,service={name},rate={arguments.rate}" for name in ("sagemaker", "monitoring")]
        slow = [f"slow,seconds={arguments.latency / 1000}"] if arguments.latency else []
        for name, faults in (("unthrottled", []), ("throttled", limits)):
            found[name] = _median([_measure(server, words, *faults, *slow) for _ in range(arguments.rounds)])
    jobs = REGIONS * (TRAINING + PROCESSING + TRANSFORM)
    print(f"{platform.machine()}, {os.cpu_count()} cores, {arguments.rounds} rounds, load {load:.1f} before")
    print(f"{jobs} jobs in {REGIONS} regions (aim: under {AIM_S:g} s)")
    for name, reading in found.items():
        print(
            f"{name:<12} {reading.seconds:5.1f} s   processor: command {reading.client_cpu:.1f} s, emulator {reading.emulator_cpu:.1f} s   "
            f"{reading.requests} requests, {reading.throttled} throttled"
        )
    if arguments.save:
        _save(found, load, arguments)
    return 0 if all(reading.seconds < AIM_S for reading in found.values()) else 1


@dataclass
class Server:
    """The process of the emulator, which takes commands as lines of JSON and answers each with one."""

    process: subprocess.Popen[str]
    environment: dict[str, str]
    regions: list[str]

    def send(self, **command: Any) -> dict[str, Any]:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        print(json.dumps(command), file=self.process.stdin, flush=True)
        return json.loads(self.process.stdout.readline())


def _measure(server: Server, words: list[str], *faults: str) -> Reading:
    before = server.send(faults=list(faults))
    used = _children_cpu()
    began = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-m", "gpuproof", "audit", *words, "--format", "json"],
        env=server.environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    seconds = time.monotonic() - began
    cpu = _children_cpu() - used
    after = server.send(faults=[])
    verdicts = Counter(row["verdict"] for row in json.loads(done.stdout or '{"rows": []}')["rows"])
    if done.returncode or verdicts != {"used": REGIONS * (TRAINING + PROCESSING + TRANSFORM)}:
        raise SystemExit(f"gpuproof audit judged {dict(verdicts)}:\n{done.stderr}")
    return Reading(seconds, cpu, after["cpu"] - before["cpu"], after["requests"], after["throttled"])


def _children_cpu() -> float:
    # Only the commands: the emulator's process has not ended.
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _median(readings: list[Reading]) -> Reading:
    """The median of each figure."""
    return Reading(
        *(
            statistics.median(values)
            for values in zip(*(asdict(reading).values() for reading in readings), strict=True)
        )
    )


@contextlib.contextmanager
def _server(folder: Path) -> Generator[Server]:
    process = subprocess.Popen(
        [sys.executable, __file__, SERVER, str(folder)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        first = json.loads(process.stdout.readline())
        inherited = {
            name: value for name, value in os.environ.items() if not name.startswith(("AWS_", "GPUPROOF_"))
        }
        environment = {**inherited, **first["environment"], "GPUPROOF_STATE_DIR": str(folder / "state")}
        yield Server(process, environment, first["regions"])
    finally:
        assert process.stdin is not None
        process.stdin.close()
        process.wait(60)


def serve(folder: Path) -> None:
    """An account with jobs that have ended, and their values in CloudWatch."""
    sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
    support = importlib.import_module("support.emulated_account")

    with support.emulated_account(folder) as account:
        described = account.client("ec2", "us-east-1").describe_regions()["Regions"]
        regions = sorted(region["RegionName"] for region in described)
        if len(regions) < REGIONS:
            raise SystemExit(f"the emulator has only {len(regions)} regions")
        regions = regions[:REGIONS]
        for region in regions:
            _add_jobs(account, region)
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


def _add_jobs(account: Any, region: str) -> None:
    """The jobs of a region; half of them have tags."""
    for number in range(TRAINING + PROCESSING + TRANSFORM):
        age = 3600.0 * (2 + number)
        start = time.time() - age
        end, tags = start + 60 * MINUTES, {"team": "vision"} if number % 2 else {}
        name = f"job-{number}"
        if number < TRAINING:
            count = 2 if number < TWO_HOSTS else 1
            account.job(
                name,
                region,
                status="Completed",
                age=age,
                count=count,
                tags=tags,
                TrainingEndTime=end,
                BillableTimeInSeconds=60 * MINUTES,
                SecondaryStatusTransitions=[{"Status": "Training", "StartTime": start, "EndTime": end}],
            )
            hosts = [f"{name}/algo-{host + 1}" for host in range(count)]
            _publish(region, "Training", hosts, start)
        elif number < TRAINING + PROCESSING:
            account.job(
                name,
                region,
                kind="processing-job",
                status="Completed",
                age=age,
                tags=tags,
                ProcessingEndTime=end,
            )
            _publish(region, "Processing", [f"{name}/algo-1"], start)
        else:
            account.transform(name, region, age=age, seconds=60 * MINUTES, tags=tags)
            _publish(region, "Transform", [f"{name}/i-{number:017x}"], start + 60)


def _publish(region: str, word: str, hosts: list[str], start: float) -> None:
    """Values by the minute, put where PutMetricData puts them: 200,000 of them through requests take minutes."""
    from moto.cloudwatch.models import MetricDatum, cloudwatch_backends

    metrics = {"GPUUtilization": 85.0, "GPUMemoryUtilization": 40.0, "CPUUtilization": 300.0}
    stored = cloudwatch_backends[_ACCOUNT][region].metric_data
    first = start // 60 * 60
    for host in hosts:
        dimensions = [{"Name": "Host", "Value": host}]
        for name, value in metrics.items():
            stored += [
                MetricDatum(
                    f"/aws/sagemaker/{word}Jobs",
                    name,
                    value,
                    dimensions,
                    datetime.fromtimestamp(first + 60 * minute, UTC).replace(tzinfo=None),
                )
                for minute in range(MINUTES)
            ]


def _save(found: dict[str, Reading], load: float, arguments: argparse.Namespace) -> None:
    if load > BUSY_LOAD:
        print(f"not saved: the machine is busy (load {load:.1f})")
        return
    path = RESULTS / f"audit-{platform.machine()}-{os.cpu_count()}-cores.json"
    document = {
        "jobs": REGIONS * (TRAINING + PROCESSING + TRANSFORM),
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


if __name__ == "__main__":
    if sys.argv[1:2] == [SERVER]:
        serve(Path(sys.argv[2]))
        sys.exit()
    sys.exit(main())
