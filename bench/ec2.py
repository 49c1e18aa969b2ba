"""Time from `gpuproof run --on ec2` to the first line of the script, on a simulated instance.

    python bench/ec2.py [--rounds 5] [--save]

It is compared with a launch of the same script without GPUproof: `RunInstances` with user data that has the script in itself and
runs it. Both boot the same simulated instance (`gpuproof emulator --boot-instances`, as root on Linux), so that the difference is the
time of GPUproof: the plan, the uploads, the downloads on the instance with the AWS CLI, and the agent. Aim: at most 3 s. `--save` writes
`bench/results/`, unless the machine is busy.
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
from dataclasses import asdict, dataclass
from pathlib import Path

from gpuproof_emulator.execution.instances.requirements import missing_requirement
from gpuproof_emulator.testing import Emulator, running

SCRIPT = "import time\nprint('first line at', time.time(), flush=True)\n"
JOB = "name: bench\nentry_point: train.py\ninstance_type: g5.xlarge\nrequire_gpu: false\nmax_duration: 1h\n"
PLAIN = f"#!/bin/sh\ncat >train.py <<'END'\n{SCRIPT}END\npython3 train.py\nshutdown -h now\n"
RESULTS = Path(__file__).parent / "results"
BUSY_LOAD = 0.5
LONGEST_S = 120.0


@dataclass(frozen=True)
class Reading:
    """Seconds of one launch.

    Args:
        request: until EC2 received `RunInstances`.
        boot: from there to the script's first line.
    """

    request: float
    boot: float

    @property
    def total(self) -> float:
        return self.request + self.boot


def main() -> int:
    """Measure, print, and save if asked to."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=5, help="pairs of launches")
    parser.add_argument("--save", action="store_true", help="write bench/results/")
    arguments = parser.parse_args()
    if reason := missing_requirement():
        print(f"not measured: {reason}")
        return 0
    load = os.getloadavg()[0]
    with tempfile.TemporaryDirectory() as name, running(Path(name) / "aws", "--boot-instances") as emulator:
        folder = _project(Path(name))
        _with_gpuproof(emulator, folder)  # builds the agent's file, and fills caches
        pairs = [(_plain(emulator), _with_gpuproof(emulator, folder)) for _ in range(arguments.rounds)]
    plain, gpuproof = (_median([pair[which] for pair in pairs]) for which in (0, 1))
    print(f"{platform.machine()}, {os.cpu_count()} cores, {arguments.rounds} rounds, load {load:.1f} before")
    for name, part in (("to RunInstances", "request"), ("to the first line", "boot"), ("in all", "total")):
        alone, ours = getattr(plain, part), getattr(gpuproof, part)
        print(
            f"{name:<18} plain {alone:6.2f} s   gpuproof run {ours:6.2f} s   difference {ours - alone:6.2f} s"
        )
    if arguments.save:
        _save(plain, gpuproof, load, arguments.rounds)
    return 0


def _with_gpuproof(emulator: Emulator, folder: Path) -> Reading:
    emulator.forget_requests()
    inherited = {
        name: value for name, value in os.environ.items() if not name.startswith(("AWS_", "GPUPROOF_"))
    }
    began = time.time()
    done = subprocess.run(
        [sys.executable, "-m", "gpuproof", "run", "--on", "ec2"],
        cwd=folder,
        env={
            **inherited,
            **emulator.credentials,
            "GPUPROOF_STATE_DIR": str(folder.parent / "state"),
            "GPUPROOF_CACHE_DIR": str(folder.parent / "cache"),
        },
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise SystemExit(f"gpuproof run failed:\n{done.stdout}{done.stderr}")
    launched = next(
        request["time"] for request in emulator.requests if request["operation"] == "RunInstances"
    )
    return Reading(launched - began, _first_line(done.stdout) - launched)


def _plain(emulator: Emulator) -> Reading:
    emulator.forget_requests()
    ec2 = emulator.client("ec2")
    began = time.time()
    made = ec2.run_instances(
        ImageId="ami-12c6146b",
        InstanceType="g5.xlarge",
        MinCount=1,
        MaxCount=1,
        UserData=PLAIN,
        InstanceInitiatedShutdownBehavior="terminate",
    )
    instance = made["Instances"][0]["InstanceId"]
    launched = next(
        request["time"] for request in emulator.requests if request["operation"] == "RunInstances"
    )
    while _state(ec2, instance) != "terminated":
        if time.time() > began + LONGEST_S:
            raise SystemExit("the instance did not end")
        time.sleep(0.2)
    console = ec2.get_console_output(InstanceId=instance)["Output"]
    return Reading(launched - began, _first_line(console) - launched)


def _state(ec2: object, instance: str) -> str:
    found = ec2.describe_instances(InstanceIds=[instance])["Reservations"]  # type: ignore[attr-defined]
    return found[0]["Instances"][0]["State"]["Name"]


def _first_line(output: str) -> float:
    return next(float(line.split()[-1]) for line in output.splitlines() if line.startswith("first line at"))


def _median(readings: list[Reading]) -> Reading:
    return Reading(
        statistics.median(reading.request for reading in readings),
        statistics.median(reading.boot for reading in readings),
    )


def _project(parent: Path) -> Path:
    folder = parent / "project"
    folder.mkdir()
    (folder / "train.py").write_text(SCRIPT)
    (folder / "gpuproof.yaml").write_text(JOB)
    return folder


def _save(plain: Reading, gpuproof: Reading, load: float, rounds: int) -> None:
    if load > BUSY_LOAD:
        print(f"not saved: the machine is busy (load {load:.1f})")
        return
    path = RESULTS / f"ec2-{platform.machine()}-{os.cpu_count()}-cores.json"
    document = {
        "seconds": {"plain": asdict(plain), "gpuproof": asdict(gpuproof)},
        "overhead_s": gpuproof.total - plain.total,
        "rounds": rounds,
        "load": load,
        "python": platform.python_version(),
    }
    path.write_text(json.dumps(document, indent=2) + "\n")
    print(f"saved {path}")


if __name__ == "__main__":
    sys.exit(main())
