"""Repeats tests under load and lists those that failed at least once: `python tools/find_flaky_tests.py COUNT TESTS…`.

The tests and busy processes beside them share one core. Where the machine allows it, the tests see a clock that began seconds ago, as
on a machine that has just booted. Exits 1 if a test failed.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections import Counter

_BUSY = 4
_UPTIME_S = 5


def main() -> int:
    """Run all rounds; returns the exit code."""
    count, tests = int(sys.argv[1]), sys.argv[2:]
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    busy = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(_BUSY)]
    failed: Counter[str] = Counter()
    try:
        for number in range(1, count + 1):
            command = [
                *_young_clock(),
                sys.executable,
                "-m",
                "pytest",
                "-q",
                "-p",
                "no:cacheprovider",
                *tests,
            ]
            done = subprocess.run(command, check=False, capture_output=True, text=True)
            names = re.findall(r"^(?:FAILED|ERROR) (\S+)", done.stdout, re.M)
            failed.update(names or ([] if done.returncode == 0 else [f"pytest: exit code {done.returncode}"]))
            print(f"round {number} of {count}: {len(names)} failed", flush=True)
            if names:
                print(done.stdout)
    finally:
        for process in busy:
            process.kill()
            process.wait()
    for name, times in failed.most_common():
        print(f"{times} of {count}: {name}")
    return 1 if failed else 0


def _young_clock() -> list[str]:
    """The command that starts another one with a clock that has just begun; empty where that is not allowed."""
    offset = str(_UPTIME_S - int(time.clock_gettime(time.CLOCK_MONOTONIC)))
    command = ["unshare", "-T", "--monotonic", offset, "--boottime", offset]
    try:
        allowed = subprocess.run([*command, "true"], check=False, capture_output=True).returncode == 0
    except OSError:
        allowed = False
    return command if allowed else []


if __name__ == "__main__":
    sys.exit(main())
