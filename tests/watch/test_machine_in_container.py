"""`gpuproof watch --for` in a container, where NVML does not list its processes: in real namespaces."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from support.local_container import skip_without_namespaces, start_container
from support.nvml_stub import SCENARIO_VARIABLE, Scenario

pytestmark = pytest.mark.slow

# Opens what CUDA opens, and says so.
OPENS = """
import os, sys, time
files = [open(name) for name in sys.argv[2:]]
open(sys.argv[1] + ".new", "w").write(str(os.getpid()))
os.rename(sys.argv[1] + ".new", sys.argv[1])
time.sleep(600)
"""
# One program after the other until all are ready, then the watch.
STARTS = """
import os, subprocess, sys, time
folder, opens, watch, *programs = sys.argv[1:]
started = []
for program in programs:
    name, *files = program.split()
    started.append(subprocess.Popen([sys.executable, "-c", opens, f"{folder}/{name}", *files], start_new_session=True))
    while not os.path.exists(f"{folder}/{name}"):
        time.sleep(0.02)
ended = subprocess.run([sys.executable, "-m", "gpuproof.watch", *watch.split()])
for process in started:
    process.kill()
sys.exit(ended.returncode)
"""


class Container:
    """A container with two GPUs, whose device files have the numbers 0 and 1."""

    def __init__(self, folder: Path, home: Path) -> None:
        skip_without_namespaces()
        self.folder = folder
        self.scenario = Scenario(folder / "gpus.txt").gpus(2)
        self.home = home
        self.mounts: dict[str, Path] = {}
        for name in ("nvidia0", "nvidia1", "nvidia-uvm"):
            (folder / name).touch()
            self.mounts[f"/dev/{name}"] = folder / name
        self.process: subprocess.Popen[str] | None = None

    def watch(self, *programs: str, options: str = "--for 2s --format json") -> str:
        """What the watch prints while these programs run: a name, and the device files that it opens."""
        self.scenario.write()
        (self.folder / "root").mkdir()
        self.process = start_container(
            [sys.executable, "-c", STARTS, str(self.folder), OPENS, options, *programs],
            self.folder / "root",
            mounts=self.mounts,
            folder=self.folder,
            environment={
                **os.environ,
                SCENARIO_VARIABLE: str(self.scenario.path),
                "LD_LIBRARY_PATH": str(self.home),
            },
        )
        output, errors = self.process.communicate(timeout=120)
        assert self.process.returncode == 0, errors
        return output

    def report(self, *programs: str) -> dict[str, Any]:
        return json.loads(self.watch(*programs))

    def pid(self, name: str) -> int:
        """A program's id in the container."""
        return int((self.folder / name).read_text())


@pytest.fixture
def container(tmp_path: Path, nvml_home: Path) -> Iterator[Container]:
    made = Container(tmp_path, nvml_home)
    yield made
    if made.process is not None:
        made.process.kill()
        made.process.communicate()


CUDA = "cuda /dev/nvidia0 /dev/nvidia-uvm"


def test_programs_that_have_opened_a_gpu_are_found_by_their_files(container: Container):
    container.scenario.at(0, 0, util=70, memory_mib=4000)
    report = container.report(CUDA, "smi /dev/nvidia0 /dev/nvidia1")
    # A program that reads NVML, such as nvidia-smi, does not use the GPU.
    (program,) = report["programs"]
    assert (program["pid"], program["gpus"]) == (container.pid("cuda"), [0])
    assert program["verdict"]["outcome"] == "unknown"
    assert [gpu["processes_listed"] for gpu in report["gpus"]] == [False, False]


def test_a_gpu_without_work_is_idle(container: Container):
    container.scenario.at(0, 0, util=0, memory_mib=4000)
    (program,) = container.report(CUDA)["programs"]
    assert program["verdict"]["outcome"] == "idle"


def test_ids_of_the_host_are_not_taken_for_processes_here(container: Container):
    # Process 1 of the container exists, and so does that of the host, which NVML lists.
    container.scenario.at(0, 0, util=70, memory_mib=4000, processes={1: 3000})
    assert container.report()["programs"] == []


def test_ids_that_the_driver_translates_count(container: Container):
    container.scenario.when_registered(container.folder / "cuda", 0, util=70)
    (program,) = container.report(CUDA)["programs"]
    assert program["verdict"]["outcome"] == "used"
    assert program["utilization"] == 70.0


def test_the_text_says_what_a_container_does_not_see(container: Container):
    container.scenario.at(0, 0, util=70, memory_mib=4000)
    container.scenario.at(0, 1, util=50, memory_mib=2000)
    text = " ".join(container.watch(CUDA, options="--for 1s").split())
    assert text.endswith(
        "GPU 0 is in use (70% busy, 3.9 GiB); a container does not see by whom, and the programs above have opened it. "
        "GPU 1 is in use (50% busy, 2.0 GiB); a container does not see by whom, and no process that can be read here has opened it."
    )
