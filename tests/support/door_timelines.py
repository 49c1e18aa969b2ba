"""Timelines of GPUs that every door of GPUproof has to judge alike: `run`, `watch`, `--pid`, `rt.watch()`, `%%gpu` and `audit`.

A timeline puts GPUs into the stub NVML and says which of them the watched program uses, by the files into which it writes its process id.
The program ends once it was looked at often enough, on a machine of any speed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from gpuproof.agent.verdict import CPU_ONLY, IDLE, OCCUPIED, PARTLY_USED, UNKNOWN, USED
from support.nvml_stub import STAYS, Scenario

WITHOUT_DRIVER = "import time\ntime.sleep(3)\n"
"""A program on a machine without NVML, where nothing can be looked at."""


@dataclass(frozen=True)
class Timeline:
    """What the GPUs do while the program runs.

    Args:
        instance_type: has as many GPUs.
        outcome: the verdict.
        by_minute: the verdicts that values by the minute allow, of all GPUs of a host together.
        used: how many GPUs the program registers itself for.
        prepare: puts GPUs into the scenario; receives the files of `used`. None for a machine without a driver.
        looks: how often the program is looked at before it ends.
    """

    name: str
    instance_type: str
    outcome: str
    by_minute: frozenset[str]
    used: int = 0
    prepare: Callable[[Scenario, Sequence[Path]], object] | None = None
    looks: int = 8

    @property
    def has_driver(self) -> bool:
        """Whether the machine has an NVIDIA driver."""
        return self.prepare is not None

    def files(self, folder: Path) -> list[Path]:
        """The files into which the program writes its process id."""
        return [folder / f"pid-{number}" for number in range(self.used)]

    def write(self, scenario: Scenario, folder: Path) -> None:
        """Put the GPUs into the machine, and let the clock run."""
        if self.prepare is not None:
            self.prepare(scenario, self.files(folder))
            scenario.run_in_real_time()

    def program(self, folder: Path) -> str:
        """The program's source: it needs only the standard library, in any directory.

        Args:
            folder: the test's, with the file `looks`.
        """
        if not self.has_driver:
            return WITHOUT_DRIVER
        files = [str(path) for path in self.files(folder)]
        return STAYS.format(files=files, looks=str(folder / "looks"), count=self.looks)


def _used(scenario: Scenario, files: Sequence[Path]) -> None:
    scenario.gpu(0).when_registered(files[0], util=90, memory_mib=9000)


def _untouched(scenario: Scenario, _: Sequence[Path]) -> None:
    scenario.gpu(0).at(0)


def _held(scenario: Scenario, files: Sequence[Path]) -> None:
    scenario.gpu(0).when_registered(files[0], util=0, memory_mib=400, power_w=30)


def _occupied(scenario: Scenario, files: Sequence[Path]) -> None:
    scenario.gpu(0, "NVIDIA H100 80GB HBM3", compute_capability=(9, 0), power_limit_w=700)
    scenario.spins(files[0])


def _two_of_four(scenario: Scenario, files: Sequence[Path]) -> None:
    scenario.gpus(4).when_registered(files[0], 0, util=100).when_registered(files[1], 2, util=100)


def _of_others(scenario: Scenario, _: Sequence[Path]) -> None:
    # Process 1 is there on every machine, and is not the program's.
    scenario.gpu(0).at(0, util=95, memory_mib=20_000, processes={1: 20_000})


ONE, FOUR, H100 = "ml.g5.xlarge", "ml.g5.12xlarge", "ml.p5.4xlarge"

TIMELINES = (
    Timeline("used", ONE, USED, frozenset({USED}), 1, _used),
    Timeline("cpu-only", ONE, CPU_ONLY, frozenset({CPU_ONLY}), 0, _untouched),
    Timeline("idle", ONE, IDLE, frozenset({IDLE}), 1, _held),
    # A minute with the start of the program has a smaller sum, which may not show how many GPUs worked.
    Timeline("partly used", FOUR, PARTLY_USED, frozenset({PARTLY_USED, UNKNOWN}), 2, _two_of_four),
    Timeline("used by others", ONE, CPU_ONLY, frozenset({CPU_ONLY}), 0, _of_others),
    Timeline("no driver", ONE, CPU_ONLY, frozenset({CPU_ONLY})),
)
"""Those that take a few seconds."""

# Samples are at least a quarter of a second apart, and five seconds of them are evidence. Utilization alone does not show it.
LONG_TIMELINES = (Timeline("occupied", H100, OCCUPIED, frozenset({USED}), 1, _occupied, looks=26),)
"""Those that take 20 seconds."""
