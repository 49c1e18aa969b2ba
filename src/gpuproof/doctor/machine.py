"""The machine as the checks see it: one object that can stand for this machine or for a folder of readings."""

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
from typing import Any, Generic, TypeVar, overload

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


class once(Generic[Value]):  # noqa: N801 - used as a decorator, as `cached_property` is
    """A reading that is taken at first use and kept, also where several threads ask for it at once."""

    def __init__(self, read: Callable[[Any], Value]) -> None:
        self._read = read
        self._name = read.__name__
        self.__doc__ = read.__doc__

    @overload
    def __get__(self, machine: None, owner: type) -> once[Value]: ...
    @overload
    def __get__(self, machine: object, owner: type) -> Value: ...
    def __get__(self, machine: object | None, owner: type) -> once[Value] | Value:
        if machine is None:
            return self
        kept = machine.__dict__
        with _locks:
            lock = kept.setdefault(f"lock of {self._name}", Lock())
        with lock:
            # Kept under the property's own name: from now on it is found before this is asked.
            if self._name not in kept:
                kept[self._name] = self._read(machine)
            return kept[self._name]


@dataclass(frozen=True)
class Said:
    """What a program said.

    Args:
        code: its exit code; `None` where it is not there or did not end in time.
        output: its standard output.
        error: its standard error, or why it could not be asked.
    """

    code: int | None
    output: str = ""
    error: str = ""


@dataclass(frozen=True)
class Machine:
    """Where to look.

    Args:
        root: the folder that holds `/proc`, `/sys` and `/dev`; another than `/` in tests.
        environment: the environment variables that a job would get.
        python: the user's interpreter.
        instance_type: what the user says this machine is, such as `g5.xlarge`; `None` to ask the machine.
        region: the AWS region that the user names; `None` for what the environment and the machine say.
        full: measure bandwidth and compute rates too.
        quick: import no framework.
    """

    root: Path = Path("/")
    environment: Mapping[str, str] = field(default_factory=lambda: dict(os.environ))
    python: str = sys.executable
    instance_type: str | None = None
    region: str | None = None
    full: bool = False
    quick: bool = False

    @once
    def catalogue(self) -> Catalogue:
        """The facts about GPUs, drivers and frameworks."""
        return Catalogue.load()

    @once
    def files(self) -> DriverFiles:
        """PCI devices, device files and the kernel module."""
        return read_driver_files(self.root)

    @once
    def nvml(self) -> NvmlReading:
        """NVML's answer, with every GPU that it sees."""
        return read_nvml(self.environment)

    @once
    def cuda(self) -> CudaReading:
        """The CUDA driver's answer, with `CUDA_VISIBLE_DEVICES` out of the way."""
        return read_cuda(self.environment)

    @once
    def packages(self) -> Packages:
        """What the user's interpreter has installed; no framework is imported."""
        return read_packages(self.python, self.environment)

    @once
    def torch(self) -> FrameworkReading | None:
        """What PyTorch says, imported in a process of its own; `None` where it is not installed, or if quick."""
        return self._framework(TORCH) if self.packages.torch else None

    @once
    def tensorflow(self) -> FrameworkReading | None:
        """What TensorFlow says, imported in a process of its own; `None` where it is not installed, or if quick."""
        return self._framework(TENSORFLOW) if self.packages.tensorflow else None

    def path(self, name: str) -> Path:
        """A path of the machine, such as `/proc/driver/nvidia/version`, below the root."""
        return self.root / name.lstrip("/")

    def text(self, name: str) -> str | None:
        """The content of a small file; `None` where it cannot be read."""
        try:
            return self.path(name).read_text(encoding="utf-8", errors="replace")
        except OSError:
            return None

    def ask(self, probe: str, *arguments: str, seconds: float) -> Answer:
        """Run one of `gpuproof.gpu.probes` in the user's interpreter. Never raises for what becomes of it."""
        return ask(self.python, probe, *arguments, environment=self.environment, seconds=seconds)

    def run(self, *command: str, seconds: float = 30.0) -> Said:
        """Ask a program; it gets the machine's environment and no input. Never raises, and never waits longer."""
        program = shutil.which(command[0], path=self.environment.get("PATH"))
        if program is None:
            return Said(None, error=f"{command[0]} is not installed")
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
                return Said(None, error=f"{command[0]} could not be started: {problem.strerror}")
            code = wait(process, seconds)
            output.seek(0)
            error.seek(0)
            said, complained = (stream.read().decode(errors="replace") for stream in (output, error))
        if code is None:
            return Said(None, said, f"{command[0]} did not answer within {seconds:g} s")
        return Said(code, said, complained)

    def _framework(self, name: str) -> FrameworkReading | None:
        return None if self.quick else read_framework(name, self.python, self.environment)
