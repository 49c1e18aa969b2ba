"""A GPU machine without a GPU: builds the stub `libnvidia-ml.so.1` and writes the scenario that it shows.

    library = build_library(tmp_path)                    # skips the test where there is no gcc
    scenario = Scenario(tmp_path / "gpus.txt")
    scenario.gpu(0, "NVIDIA A10G", memory_mib=23028)
    scenario.at(0, gpu=0, util=0)
    scenario.at(5, gpu=0, util=90, memory_mib=8000, processes={os.getpid(): 7900})
    scenario.now(6)                                      # writes the file; the stub reads it again by itself
    subprocess.run([...], env={**os.environ, **scenario.environment(library)})

For a journey, `scenario.when_registered(pid_file, ...)` shows a busy GPU as long as a process lives whose id a script
wrote into `pid_file`, and `scenario.seen(looks)` counts the readings so far: `STAYS` is a script that runs
until it was seen, however slow the machine. `scenario.run_in_real_time()` lets the clock go.
"""

import _ctypes
import csv
import ctypes
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType

import pytest

SOURCE = Path(__file__).with_name("nvml") / "nvml_stub.c"
RECORDINGS = SOURCE.parent / "recordings"
LIBRARY = "libnvidia-ml.so.1"
SCENARIO_VARIABLE = "GPUPROOF_NVML_STUB"

NOT_SUPPORTED = 3
NO_PERMISSION = 4
DRIVER_NOT_LOADED = 9
GPU_IS_LOST = 15
UNKNOWN = 999

STAYS = """
import os, time
for name in {files!r}:
    with open(name, "w") as file:
        file.write(str(os.getpid()))
enough = os.path.getsize({looks!r}) + {count}
while os.path.getsize({looks!r}) < enough:
    time.sleep(0.02)
"""
"""A script, to be formatted: writes its process id into `files`, and ends once `looks` has grown by `count`."""

INVISIBLE: Mapping[int, int] = {}
"""The process list as a container sees it: empty, whatever runs."""


def build_library(folder: Path, *, without: Sequence[str] = ()) -> Path:
    """Compile the stub and return the folder for `LD_LIBRARY_PATH`; built once for each `folder`.

    Args:
        folder: where to build, such as a session's temporary folder.
        without: names of NVML functions that the library shall lack, as an older driver's does.
    """
    compiler = shutil.which("gcc") or shutil.which("cc")
    if compiler is None:
        pytest.skip("the NVML stub needs a C compiler, and there is none (apt-get install gcc)")
    home = folder / ("nvml" + "".join(f"-{name}" for name in without))
    if (home / LIBRARY).exists():
        return home
    home.mkdir(parents=True, exist_ok=True)
    # A name of its own for each process, then a rename: test workers may build into one folder at once.
    unfinished = home / f"{os.getpid()}.so"
    command = [compiler, "-O1", "-shared", "-fPIC", "-fvisibility=hidden", f"-Wl,-soname,{LIBRARY}"]
    command += [f"-D{name}=static_{name}" for name in without]
    subprocess.run([*command, "-o", str(unfinished), str(SOURCE)], check=True, capture_output=True)
    unfinished.replace(home / LIBRARY)
    return home


@contextmanager
def loaded(home: Path) -> Iterator[None]:
    """Load the stub into this process, so that its SONAME is used for NVML; unload it afterwards."""
    unload()  # a real one would otherwise be found under the same name
    ctypes.CDLL(str(home / LIBRARY), mode=ctypes.RTLD_GLOBAL)
    try:
        yield
    finally:
        unload()


def unload() -> None:
    """Unload NVML, real or stub, from this process; no handle may be open."""
    if pynvml := sys.modules.get("pynvml"):
        pynvml.nvmlLib = None
        pynvml._nvmlGetFunctionPointer_cache.clear()
    # Each load counts once, and none is ever released.
    for _ in range(1000):
        try:
            library = ctypes.CDLL(LIBRARY, mode=os.RTLD_NOLOAD)
        except OSError:
            return
        _ctypes.dlclose(library._handle)
        _ctypes.dlclose(library._handle)
    raise RuntimeError(f"{LIBRARY} cannot be unloaded: something else in this process holds it")


@dataclass
class Scenario:
    """What the stub shows, now and later; `now()` and `write()` put it into the file.

    Args:
        path: the file that `GPUPROOF_NVML_STUB` names.
    """

    path: Path
    driver: str = "550.54.15"
    cuda: int = 12040
    _clock: str = "fixed 0"
    _gpus: dict[int, str] = field(default_factory=dict[int, str])
    _health: list[str] = field(default_factory=list[str])
    _rows: list[str] = field(default_factory=list[str])
    _failures: list[str] = field(default_factory=list[str])
    _looks: str = ""

    def gpu(
        self,
        index: int,
        name: str = "NVIDIA A10G",
        *,
        memory_mib: int = 23028,
        compute_capability: tuple[int, int] = (8, 6),
        power_limit_w: int = 300,
        mig: bool | None = None,
    ) -> "Scenario":
        """Puts a GPU into the machine."""
        mode = -1 if mig is None else int(mig)
        major, minor = compute_capability
        identity = f"GPU-{index:08x}-0000-0000-0000-000000000000 00000000:{index + 16:02X}:00.0"
        self._gpus[index] = (
            f"gpu {index} {memory_mib} {major} {minor} {power_limit_w} {mode} {identity} {name}"
        )
        return self

    def gpus(self, count: int, name: str = "NVIDIA A10G") -> "Scenario":
        """Puts `count` equal GPUs into the machine."""
        for index in range(count):
            self.gpu(index, name)
        return self

    def at(
        self,
        seconds: float,
        gpu: int = 0,
        *,
        util: int = 0,
        memory_util: int = 0,
        memory_mib: int = 0,
        reserved_mib: int = 0,
        power_w: float = 30,
        temperature_c: int = 30,
        clock_mhz: int = 300,
        throttle: int = 0,
        error: int = 0,
        processes: Mapping[int, int | tuple[int, ...]] = INVISIBLE,
        counters: Mapping[str, float] = MappingProxyType({}),
    ) -> "Scenario":
        """From `seconds` on, `gpu` looks like this.

        Args:
            processes: for each process id its MiB (-1: not available), or MiB, percent of the SMs and MIG instance.
            counters: performance counters: `gr`, `sm`, `tensor`, `pcie_tx` and others; `nvml_stub.c` lists the names.
        """
        listed = ",".join(f"{pid}:{_process(use)}" for pid, use in processes.items())
        self._rows.append(
            f"at {seconds} {gpu} util={util} memutil={memory_util} mem={memory_mib} reserved={reserved_mib} "
            f"power={power_w} clock={clock_mhz} temp={temperature_c} throttle={throttle:#x} error={error} procs={listed}"
            f"{_words(counters)}"
        )
        return self

    def instance(self, seconds: float, gpu: int, instance: int, **counters: float) -> "Scenario":
        """From `seconds` on, the MIG instance with this id has these performance counters."""
        self._rows.append(f"at {seconds} {gpu} instance={instance}{_words(counters)}")
        return self

    def replay(self, recording: str, pid: int, gpu: int = 0) -> "Scenario":
        """From 0 s on, `gpu` looks as a real one did when NVML's answers were recorded.

        Args:
            recording: a file of `nvml/recordings/`, without its suffix.
            pid: stands for the process that used the GPU.
        """
        lines = (RECORDINGS / f"{recording}.csv").read_text().splitlines()
        for row in csv.DictReader(line for line in lines if not line.startswith("#")):
            self.at(
                float(row["seconds"]),
                gpu,
                util=int(row["util"]),
                memory_util=int(row["memory_util"]),
                memory_mib=int(row["memory_mib"]),
                reserved_mib=int(row["reserved_mib"]),
                power_w=float(row["power_w"]),
                clock_mhz=int(row["clock_mhz"]),
                throttle=int(row["throttle"], 16),
                processes={pid: int(row["process_mib"])} if row["process_mib"] else INVISIBLE,
            )
        return self

    def health(self, gpu: int = 0, **conditions: float) -> "Scenario":
        """How `gpu` is; what is not named here is not supported. `nvml_stub.c` lists the names."""
        named = " ".join(f"{name}={int(value)}" for name, value in conditions.items())
        self._health.append(f"health {gpu} {named}")
        return self

    def when_registered(
        self,
        pid_file: Path,
        gpu: int = 0,
        *,
        seconds: float = 0,
        util: int = 90,
        memory_mib: int = 4000,
        power_w: float = 200,
        temperature_c: int = 60,
        visible: bool = True,
        counters: Mapping[str, float] = MappingProxyType({}),
    ) -> "Scenario":
        """While a process lives whose id stands in `pid_file`, it has `gpu` and works on it.

        Args:
            seconds: on the scenario's clock, when this begins.
            visible: whether NVML lists the process; in a container it does not.
            counters: performance counters meanwhile, as for `at`.
        """
        listed = f"@:{memory_mib}:{util}" if visible else ""
        self._rows.append(
            f"at {seconds} {gpu} util={util} mem={memory_mib} power={power_w} temp={temperature_c} clock=1500 procs={listed}"
            f"{_words(counters)} when={pid_file}"
        )
        return self

    def spins(self, pid_file: Path, gpu: int = 0) -> "Scenario":
        """Like `when_registered`, on a GPU with performance counters: one thread spins on one of its 132 multiprocessors."""
        self.health(gpu, gpm=1, cores=132 * 128)
        spin = {"gr": 100, "sm": 0.758, "occupancy": 0.012, "integer": 0.005}
        none = dict.fromkeys(("tensor", "dram", "fp64", "fp32", "fp16", "nvlink_tx", "nvlink_rx"), 0)
        return self.when_registered(
            pid_file, gpu, util=100, power_w=131, counters={**spin, **none, "pcie_tx": 1, "pcie_rx": 1}
        )

    def fail(self, function: str, code: int, *, at: float = 0, until: float = 1e12) -> "Scenario":
        """Makes an NVML function (`nvmlInit`, `nvmlDeviceGetPowerUsage`, `*` for all but init) return an error."""
        self._failures.append(f"fail {function} {code} {at} {until}")
        return self

    def seen(self, looks: Path) -> "Scenario":
        """Make `looks` grow by a byte each time that the utilization of GPU 0 is read."""
        looks.touch()
        self._looks = f"looks {looks}"
        return self

    def now(self, seconds: float) -> "Scenario":
        """Sets the scenario's clock and writes the file."""
        self._clock = f"fixed {seconds}"
        return self.write()

    def run_in_real_time(self) -> "Scenario":
        """Lets the clock run from 0, beginning now, and writes the file."""
        self._clock = f"wall {time.time()}"
        return self.write()

    def write(self) -> "Scenario":
        """Writes the file in one step, so that the stub never reads half of it."""
        lines = [f"driver {self.driver}", f"cuda {self.cuda}", f"clock {self._clock}", self._looks]
        lines += [*self._gpus.values(), *self._health, *self._failures, *self._rows]
        unfinished = self.path.with_name(self.path.name + ".new")
        unfinished.write_text("\n".join(lines) + "\n")
        unfinished.replace(self.path)
        return self

    def environment(self, library_folder: Path) -> dict[str, str]:
        """The variables with which a child process sees these GPUs."""
        inherited = os.environ.get("LD_LIBRARY_PATH")
        path = f"{library_folder}:{inherited}" if inherited else str(library_folder)
        return {SCENARIO_VARIABLE: str(self.path), "LD_LIBRARY_PATH": path}


def _process(use: int | tuple[int, ...]) -> str:
    return str(use) if isinstance(use, int) else ":".join(map(str, use))


def _words(counters: Mapping[str, float]) -> str:
    return "".join(f" {name}={value}" for name, value in counters.items())
