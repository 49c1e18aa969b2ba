"""Query times of the catalogue, and of SkyPilot's CLI for the same questions.

    python bench/catalogue.py [--runs 15] [--skypilot]

Aims: `gpuproof gpus` from a cold start under 0.20 s; the whole catalogue read in under 20 ms; 10,000 searches a second.
With --skypilot, `skypilot[aws]` is installed into a virtual environment of its own in a temporary folder; its CLI
downloads its price lists at the first question, so offline it can only be timed up to its failure.
"""

import argparse
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gpuproof.catalogue import Catalogue, InstanceQuery

COLD_AIM_S = 0.20
LOAD_AIM_MS = 20.0
SEARCH_AIM = 10_000
NOWHERE = Path("nonexistent")
"""In place of the refreshed tables: the figures are for what ships."""


def main() -> int:
    """Prints the figures; returns 1 where an aim is missed."""
    options = _arguments()
    print(f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}")
    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, "GPUPROOF_CACHE_DIR": folder}
        met = [_cold(options.runs, environment), _load(options.runs), _searches()]
        if options.skypilot:
            _skypilot(Path(folder), options.runs)
    return 0 if all(met) else 1


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="How fast the catalogue answers.")
    parser.add_argument("--runs", type=int, default=15, help="of each command; the median counts")
    parser.add_argument("--skypilot", action="store_true", help="install and time SkyPilot's CLI too")
    return parser.parse_args()


def _cold(runs: int, environment: Mapping[str, str]) -> bool:
    gpuproof = [str(Path(sys.executable).with_name("gpuproof")), "gpus"]
    questions = (
        [],
        ["--gpu", "A10G"],
        ["--for", "training", "--framework", "torch==2.11"],
        ["show", "ml.p3.2xlarge"],
    )
    slowest = 0.0
    for question in questions:
        seconds = _median_seconds([*gpuproof, *question], runs, environment)
        slowest = max(slowest, seconds)
        print(f"  {seconds * 1e3:7.0f} ms  gpuproof gpus {' '.join(question)}")
    print(f"cold start: {slowest:.3f} s at most (aim: under {COLD_AIM_S:.2f} s)")
    return slowest < COLD_AIM_S


def _load(runs: int) -> bool:
    from gpuproof.catalogue.tables import Tables

    def read_all() -> float:
        tables = Tables()
        names = [name for name, value in vars(Tables).items() if isinstance(value, cached_property)]
        started = time.perf_counter()
        for name in names:
            getattr(tables, name)
        return time.perf_counter() - started

    milliseconds = statistics.median(read_all() for _ in range(runs)) * 1e3
    print(f"every table read: {milliseconds:.1f} ms (aim: under {LOAD_AIM_MS:.0f} ms)")
    return milliseconds < LOAD_AIM_MS


def _searches() -> bool:
    from gpuproof.catalogue import Catalogue, InstanceQuery
    from gpuproof.units import CountRange, MemoryRange

    catalogue = Catalogue.load(refreshed=NOWHERE)
    build = catalogue.build("torch==2.11")
    requests = {
        "everything": InstanceQuery(),
        "one model": InstanceQuery(gpus=("A10G",), count=CountRange(1, 1)),
        "a build": InstanceQuery(builds=(build,) if build else ()),
        "many filters": InstanceQuery(
            gpu_memory=MemoryRange.parse("24GB+"),
            region="us-west-2",
            use="training",
            max_price=5.0,
            arch="x86_64",
            builds=(build,) if build else (),
        ),
    }
    slowest = float("inf")
    for name, request in requests.items():
        rate = _rate(catalogue, request)
        slowest = min(slowest, rate)
        print(f"  {rate:7,.0f}/s  {name}: {len(catalogue.search(request))} types")
    print(f"searches: {slowest:,.0f} a second at least (aim: {SEARCH_AIM:,})")
    return slowest >= SEARCH_AIM


def _rate(catalogue: "Catalogue", request: "InstanceQuery") -> float:
    catalogue.search(request)
    count, started = 0, time.perf_counter()
    while (passed := time.perf_counter() - started) < 0.5:
        for _ in range(100):
            catalogue.search(request)
        count += 100
    return count / passed


def _skypilot(folder: Path, runs: int) -> None:
    venv = folder / "skypilot"
    steps = (
        ["uv", "venv", "-q", str(venv)],
        ["uv", "pip", "install", "-q", "-p", str(venv), "skypilot[aws]"],
    )
    for step in steps:
        if subprocess.run(step, capture_output=True).returncode:
            print(f"SkyPilot: {' '.join(step)} failed")
            return
    sky, environment = str(venv / "bin" / "sky"), {**os.environ, "HOME": str(folder)}
    question = [sky, "gpus", "list", "A10G", "--infra", "aws"]
    try:
        # The first question starts its API server, which then stays.
        answered = subprocess.run(question, capture_output=True, env=environment).returncode == 0
        seconds = _median_seconds(question, max(3, runs // 5), environment, check=False)
        outcome = "answered" if answered else "failed: no price lists without the internet"
        print(
            f"  {seconds * 1e3:7.0f} ms  sky gpus list A10G --infra aws ({outcome}; its server already runs)"
        )
        seconds = _median_seconds([sky, "--help"], max(3, runs // 5), environment)
        print(f"  {seconds * 1e3:7.0f} ms  sky --help")
    finally:
        subprocess.run([sky, "api", "stop"], capture_output=True, env=environment)


def _median_seconds(
    command: Sequence[str], runs: int, environment: Mapping[str, str], *, check: bool = True
) -> float:
    def once() -> float:
        started = time.perf_counter()
        subprocess.run(command, capture_output=True, check=check, env=environment)
        return time.perf_counter() - started

    return statistics.median(once() for _ in range(runs))


if __name__ == "__main__":
    sys.exit(main())
