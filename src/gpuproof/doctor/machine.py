"""The machine as the checks see it: this machine, or a folder of readings in tests."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock
from typing import Any, Generic, TypeVar, cast, overload

from gpuproof.catalogue import Catalogue
from gpuproof.gpu.cuda import CudaReading, NvmlReading, read_cuda, read_nvml
from gpuproof.gpu.driver import DriverFiles, read_driver_files
from gpuproof.gpu.framework_probe import (
    TENSORFLOW,
    TORCH,
    FrameworkReading,
    Packages,
    read_framework,
    read_packages,
)
from gpuproof.gpu.probe_process import Answer, ask, wait

Value = TypeVar("Value")
_locks = Lock()


class cached_reading(Generic[Value]):  # noqa: N801 - used as a decorator, as `cached_property` is
    """Thread-safe `cached_property`: the reading is taken at first use, once, even if several threads need it."""

    def __init__(self, read: Callable[[Any], Value]) -> None:
        self._read = read
        self._name = read.__name__
        self.__doc__ = read.__doc__

    @overload
    def __get__(self, machine: None, owner: type) -> cached_reading[Value]: ...
    @overload
    def __get__(self, machine: object, owner: type) -> Value: ...
    def __get__(self, machine: object | None, owner: type) -> cached_reading[Value] | Value:
        # Stored under the attribute's own name, so later lookups find it in `__dict__` without this descriptor.
        return self if machine is None else read_once(machine, self._name, self._read)


def read_once(machine: Any, name: str, read: Callable[[Any], Value]) -> Value:
    """Return `read(machine)`, computed at the first call for this machine and name and shared between threads."""
    values = vars(machine)
    with _locks:
        lock = values.setdefault(f"lock of {name}", Lock())
    with lock:
        if name not in values:
            values[name] = read(machine)
        return cast("Value", values[name])


@dataclass(frozen=True)
class CommandResult:
    """Outcome of one program run.

    Args:
        code: its exit code; `None` if it is not installed, did not start or timed out.
        error: its standard error, or why it has no exit code.
    """

    code: int | None
    output: str = ""
    error: str = ""


@dataclass(frozen=True)
class Machine:
    """The machine to check, with the options of the command.

    Args:
        root: the folder that holds `/proc`, `/sys` and `/dev`; not `/` in tests.
        instance_type: the instance type given by the user, such as `g5.xlarge`; `None` to detect it.
        region: the AWS region given by the user; `None` to take it from the environment or the machine.
        full: also measure bandwidth and compute rates.
        quick: do not import any framework.
    """

    root: Path = Path("/")
    environment: Mapping[str, str] = field(default_factory=lambda: dict(os.environ))
    python: str = sys.executable
    instance_type: str | None = None
    region: str | None = None
    full: bool = False
    quick: bool = False

    @cached_reading
    def catalogue(self) -> Catalogue:
        """Facts about GPUs, drivers and frameworks."""
        return Catalogue.load()

    @cached_reading
    def files(self) -> DriverFiles:
        """PCI devices, device files and the kernel module."""
        return read_driver_files(self.root)

    @cached_reading
    def nvml(self) -> NvmlReading:
        """NVML's answer, with every GPU that NVML sees."""
        return read_nvml(self.environment)

    @cached_reading
    def cuda(self) -> CudaReading:
        """The CUDA driver's answer, without the effect of `CUDA_VISIBLE_DEVICES`."""
        return read_cuda(self.environment)

    @cached_reading
    def packages(self) -> Packages:
        """Packages installed in the user's interpreter; imports no framework."""
        return read_packages(self.python, self.environment)

    @cached_reading
    def torch(self) -> FrameworkReading | None:
        """What PyTorch reports, imported in its own process; `None` if it is not installed, or with `quick`."""
        return self._framework(TORCH) if self.packages.torch else None

    @cached_reading
    def tensorflow(self) -> FrameworkReading | None:
        """What TensorFlow reports, imported in its own process; `None` if it is not installed, or with `quick`."""
        return self._framework(TENSORFLOW) if self.packages.tensorflow else None

    def path(self, name: str) -> Path:
        """An absolute path such as `/proc/driver/nvidia/version`, moved below the root."""
        return self.root / name.lstrip("/")

    def read_text(self, name: str) -> str | None:
        """The content of a small file; `None` if it cannot be read."""
        try:
            return self.path(name).read_text(encoding="utf-8", errors="replace")
        except OSError:
            return None

    def run_probe(self, probe: str, *arguments: str, seconds: float) -> Answer:
        """Run one of `gpuproof.gpu.probes` in the user's interpreter; a crash or timeout is part of the answer."""
        return ask(self.python, probe, *arguments, environment=self.environment, seconds=seconds)

    def run_command(self, *command: str, seconds: float = 30.0) -> CommandResult:
        """Run a program with the machine's environment and no input; never raises, and kills it after `seconds`."""
        program = shutil.which(command[0], path=self.environment.get("PATH"))
        if program is None:
            return CommandResult(None, error=f"{command[0]} is not installed")
        with tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as error:
            try:
                process = subprocess.Popen(
                    [program, *command[1:]],
                    env=dict(self.environment),
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=error,
                    start_new_session=True,
                )
            except OSError as problem:
                return CommandResult(None, error=f"{command[0]} could not be started: {problem.strerror}")
            code = wait(process, seconds)
            output.seek(0)
            error.seek(0)
            text, complaint = (stream.read().decode(errors="replace") for stream in (output, error))
        if code is None:
            return CommandResult(None, text, f"{command[0]} did not answer within {seconds:g} s")
        return CommandResult(code, text, complaint)

    def _framework(self, name: str) -> FrameworkReading | None:
        return None if self.quick else read_framework(name, self.python, self.environment)
