"""Time to the first step of TensorFlow's MultiWorkerMirroredStrategy on two hosts, compared with a hand-written TF_CONFIG.

    python bench/distributed_tf.py [--rounds 5]

Each round starts the same script twice, one after the other: as two processes with TF_CONFIG on this machine, and by
`gpuproof run` with `instance_count: 2` and `distribution: multi_worker_mirrored`, as two hosts with their own networks and
agents. The time is from the start of the command to the end of the first all-reduce on the last host. Aim: at most 0.5 s
more per host.
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HOSTS = 2
GPUPROOF = str(Path(sys.executable).with_name("gpuproof"))
PATIENCE_S = 600.0
SCRIPT = """
import json, os, time
import tensorflow as tf
strategy = tf.distribute.MultiWorkerMirroredStrategy()
@tf.function
def step():
    return tf.distribute.get_replica_context().all_reduce("SUM", tf.constant(1.0))
assert [float(total) for total in strategy.experimental_local_results(strategy.run(step))] == [2.0]
print("first-step", time.time(), flush=True)
"""
JOB = f"""
entry_point: train.py
framework: tensorflow
instance_count: {HOSTS}
distribution: multi_worker_mirrored
require_gpu: false
"""


def main() -> int:
    """Print the medians and their difference."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=5)
    rounds: int = parser.parse_args().rounds
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "train.py").write_text(SCRIPT)
        (folder / "gpuproof.yaml").write_text(JOB)
        environment = {**os.environ, "HOME": name, "TF_CPP_MIN_LOG_LEVEL": "3", "NO_COLOR": "1"}
        pairs = [(_by_hand(folder, environment), _by_gpuproof(folder, environment)) for _ in range(rounds)]
    differences = [ours - plain for plain, ours in pairs]
    plain, ours = (statistics.median(times) for times in zip(*pairs, strict=True))
    per_host = statistics.median(differences) / HOSTS
    print(f"{rounds} pairs, {HOSTS} hosts, load {os.getloadavg()[0]:.1f}")
    print(f"hand-written TF_CONFIG   {plain:6.2f} s to the first step")
    print(f"gpuproof run             {ours:6.2f} s")
    print(f"median of the differences {per_host:5.2f} s per host (aim: at most 0.50 s)")
    return 0


def _by_hand(folder: Path, environment: dict[str, str]) -> float:
    with socket.socket() as one, socket.socket() as other:
        for probe in (one, other):
            probe.bind(("127.0.0.1", 0))
        workers = [f"127.0.0.1:{probe.getsockname()[1]}" for probe in (one, other)]
    began = time.time()
    started: list[subprocess.Popen[str]] = []
    for index in range(HOSTS):
        config = {"cluster": {"worker": workers}, "task": {"type": "worker", "index": index}}
        started.append(
            subprocess.Popen(
                [sys.executable, "train.py"],
                cwd=folder,
                env={**environment, "TF_CONFIG": json.dumps(config)},
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                text=True,
            )
        )
    try:
        outputs = [process.communicate(timeout=PATIENCE_S)[0] for process in started]
    finally:
        for process in started:
            process.kill()
    return _last_step("".join(outputs)) - began


def _by_gpuproof(folder: Path, environment: dict[str, str]) -> float:
    began = time.time()
    done = subprocess.run(
        [GPUPROOF, "run", "--on", "local", "--python", sys.executable],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return _last_step(done.stdout) - began


def _last_step(output: str) -> float:
    times = [float(line.split()[-1]) for line in output.splitlines() if "first-step " in line]
    assert len(times) == HOSTS, output
    return max(times)


if __name__ == "__main__":
    sys.exit(main())
