"""CPU cost of the sampler: its share of one core on a machine with eight (simulated) GPUs and many processes.

    python bench/sampler.py [--seconds 20] [--gpus 8] [--job 32] [--others 200] [--no-gpm]

The GPUs are the stub NVML of tests/support, so that the figure is GPUproof's own work; a real driver adds its own.
The GPUs have performance counters (GPM), or with `--no-gpm` PCIe throughput only. Aim: under 1 % of one core.
"""

import argparse
import importlib
import os
import platform
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

FAKES = Path(__file__).resolve().parent.parent / "tests"
AIM_PERCENT = 1.0
_IN_CHILD = "GPUPROOF_BENCH_SAMPLER_ROOT"


def main() -> int:
    """Starts the processes and the measurement; returns 1 where the aim is missed."""
    options = _arguments()
    if _IN_CHILD in os.environ:
        return _measure(int(os.environ[_IN_CHILD]), options.seconds)
    sys.path.insert(0, str(FAKES))
    stub = importlib.import_module("support.nvml_stub")

    sleepers = "import subprocess, sys; [subprocess.Popen(['sleep', '600']) for _ in range(int(sys.argv[1]))]; input()"
    with tempfile.TemporaryDirectory() as folder:
        job, others = (
            subprocess.Popen(
                [sys.executable, "-c", sleepers, str(count)], stdin=subprocess.PIPE, start_new_session=True
            )
            for count in (options.job, options.others)
        )
        try:
            time.sleep(1)
            scenario = stub.Scenario(Path(folder) / "gpus.txt").gpus(options.gpus)
            for index in range(options.gpus):
                scenario.health(index, max_clock=1980, pcie=1, gpm=int(options.gpm))
                counters = {"gr": 80, "sm": 70, "occupancy": 20, "tensor": 60, "pcie_tx": 100, "pcie_rx": 100}
                scenario.at(
                    0,
                    index,
                    util=80,
                    memory_mib=8000,
                    power_w=250,
                    processes={job.pid: 7900},
                    counters=counters,
                )
            scenario.run_in_real_time()
            environment = {**os.environ, **scenario.environment(stub.build_library(Path(folder)))}
            return subprocess.run(
                [sys.executable, *sys.argv], env={**environment, _IN_CHILD: str(job.pid)}
            ).returncode
        finally:
            for process in (job, others):
                os.killpg(process.pid, 9)
                process.wait()


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="What the sampler costs.")
    parser.add_argument("--seconds", type=float, default=20, help="how long to measure")
    parser.add_argument("--gpus", type=int, default=8)
    parser.add_argument("--job", type=int, default=32, help="processes of the job")
    parser.add_argument("--others", type=int, default=200, help="processes that are not the job's")
    parser.add_argument(
        "--no-gpm", dest="gpm", action="store_false", help="GPUs without performance counters"
    )
    return parser.parse_args()


def _measure(root: int, seconds: float) -> int:
    from gpuproof.gpu.sampler import EARLY_S, Sampler

    watching = Sampler(root)
    watching.start()
    # The first seconds hold the import of pynvml and the denser early samples.
    time.sleep(EARLY_S + 1)
    before = time.process_time()
    time.sleep(seconds)
    share = 100 * (time.process_time() - before) / seconds
    evidence = watching.stop()
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    processes = evidence.tree.peak_processes if evidence.tree else 0
    sources = sorted({gpu.intensity.source for gpu in evidence.gpus if gpu.intensity is not None})
    print(
        f"sampler: {share:.2f} % of one core (aim: under {AIM_PERCENT:g} %), {memory:.0f} MiB with Python itself"
    )
    print(
        f"  {len(evidence.gpus)} GPUs, intensity from {', '.join(sources) or 'nothing'}, {processes} processes of the job, {evidence.samples} samples"
    )
    print(f"  {platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}")
    return 0 if share < AIM_PERCENT else 1


if __name__ == "__main__":
    sys.exit(main())
