"""Throughput of `gpuproof explain` on a log, compared with `grep -E -c` and seven of its patterns.

    python bench/explain.py [--mib 100]

The log is what a training job writes: progress lines, TensorFlow and NCCL chatter, and a known error every 50,000
lines. Both are timed in seconds of a processor, so that a busy machine does not count. grep counts lines and explains
nothing; it is the speed of reading, and the aim is half a minute for a gigabyte.
"""

import argparse
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

AIM_MB_S = 35.0
PATTERNS = (
    "CUDA out of memory|Could not find cuda drivers|no kernel image is available|DataLoader worker .* killed by signal"
    "|No space left on device|NVRM: Xid|ChildFailedError"
)
CHATTER = (
    b"Epoch 3/10 step 1200/4000 - loss: 0.4312 - accuracy: 0.8123 - mean_squared_error: 0.0312 - 32ms/step lr 1e-4\n",
    b"[1,mpirank:0,algo-1]<stdout>:2026-11-21 10:11:12,123 INFO trainer: images/s 812.4 memory 14.1 GiB data 3.2 ms\n",
    b"2026-11-21 10:11:12.123456: I tensorflow/core/common_runtime/process_util.cc:146] Creating new thread pool\n",
    b"algo-1:57:89 [0] NCCL INFO Channel 00/02 : 0 1 2 3 4 5 6 7\n",
    b"Saving checkpoint to /opt/ml/checkpoints/model.ckpt-20000 (98.4 MiB) took 1.2 s\n",
)
KNOWN = b"torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.20 GiB. GPU 0 has a total capacity of 14.58 GiB\n"


def main() -> int:
    """Writes the log, times both, and returns 1 where the aim is missed."""
    options = _arguments()
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "train.log"
        with log.open("wb") as file:
            file.writelines(_lines(options.mib << 20))
        size = log.stat().st_size
        explained = min(_explain(log) for _ in range(2))
        print(
            f"explain: {size / explained / 1e6:.0f} MB/s of a log of {size / 1e6:.0f} MB (aim: {AIM_MB_S:g} MB/s)"
        )
        if grep := shutil.which("grep"):
            counted = min(_grep(grep, log) for _ in range(2))
            print(
                f"  grep -E -c of 7 patterns: {size / counted / 1e6:.0f} MB/s: explain looks for {_texts()} error texts"
                f" and takes {explained / counted:.1f} times as long"
            )
    print(f"  {platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}")
    return 0 if size / explained / 1e6 >= AIM_MB_S else 1


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="How fast explain goes through a log.")
    parser.add_argument("--mib", type=int, default=100, help="size of the log")
    return parser.parse_args()


def _lines(size: int) -> Iterator[bytes]:
    block = b"".join(CHATTER) * 10_000 + KNOWN
    for _ in range(size // len(block) + 1):
        yield block


def _explain(log: Path) -> float:
    from gpuproof.explain import Context
    from gpuproof.explain.sources import explain_file

    context = Context()
    start = time.process_time()
    (found,) = explain_file(log, context).explanations
    seconds = time.process_time() - start
    if found.code != "torch-out-of-memory":
        raise SystemExit(f"explain found {found.code}")
    return seconds


def _grep(grep: str, log: Path) -> float:
    before = os.times()
    subprocess.run([grep, "-E", "-c", PATTERNS, str(log)], capture_output=True, check=True)
    after = os.times()
    return after.children_user + after.children_system - before.children_user - before.children_system


def _texts() -> int:
    from gpuproof.explain.patterns import known_errors

    return len(known_errors())


if __name__ == "__main__":
    sys.exit(main())
