"""Reads NVML, the CUDA driver and the CUDA libraries, each in a separate process."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from gpuproof.gpu.nvml import LIBRARY_NOT_FOUND, GpuInfo
from gpuproof.gpu.probe_process import Answer, ask, own_environment

DRIVER_SECONDS = 60.0
"""Without persistence mode a driver takes seconds to initialise eight GPUs; after this long it is stuck."""

LIBRARIES_SECONDS = 120.0


@dataclass(frozen=True)
class NvmlReading:
    """Results of NVML.

    Args:
        driver: the driver's version, such as `580.95.05`.
        gpus: every GPU, regardless of `CUDA_VISIBLE_DEVICES`.
        lost: why a GPU does not respond, by index.
        problem: why NVML cannot be used.
        hung: whether NVML did not respond in time.
    """

    driver: str | None = None
    gpus: tuple[GpuInfo, ...] = ()
    lost: tuple[tuple[int, str], ...] = ()
    problem: str | None = None
    code: int | None = None
    hung: bool = False

    @property
    def library_missing(self) -> bool:
        """Whether the NVML library is not installed."""
        return self.code == LIBRARY_NOT_FOUND


@dataclass(frozen=True)
class CudaDevice:
    """A device as reported by the CUDA driver. Memory in bytes."""

    index: int
    name: str = ""
    memory: int = 0
    capability: tuple[int, int] = (0, 0)


@dataclass(frozen=True)
class CudaReading:
    """Results of the CUDA driver library, without `CUDA_VISIBLE_DEVICES`.

    Args:
        library_error: why it could not be loaded.
        version: the newest CUDA that it supports, such as (12, 4).
        init: the return code of `cuInit`; `None` if it was not reached.
        problem: how the probe failed, with its last step.
        hung: whether it did not respond in time.
    """

    path: str | None = None
    library_error: str | None = None
    version: tuple[int, int] | None = None
    init: int | None = None
    devices: tuple[CudaDevice, ...] = ()
    problem: str | None = None
    hung: bool = False

    @property
    def library_missing(self) -> bool:
        """Whether the library is not installed, as opposed to one that does not load."""
        return (
            self.library_error is not None and "cannot open shared object file: No such" in self.library_error
        )

    @property
    def compat(self) -> bool:
        """Whether a cuda-compat package replaces the driver's own library, as in AWS's containers.

        Source: https://docs.nvidia.com/deploy/cuda-compatibility/forward-compatibility.html
        """
        return self.path is not None and "/compat/" in self.path


def read_nvml(environment: Mapping[str, str], seconds: float = DRIVER_SECONDS) -> NvmlReading:
    """Read NVML; takes about 0.1 s on a healthy machine."""
    answer = ask(sys.executable, "nvml", environment=own_environment(environment), seconds=seconds)
    record = answer.one("nvml")
    if record is None:
        return NvmlReading(problem=_at(answer), hung=answer.hung)
    if "problem" in record:
        return NvmlReading(problem=record["problem"], code=record["code"])
    gpus = tuple(
        replace(GpuInfo(**gpu), compute_capability=_pair(gpu["compute_capability"])) for gpu in record["gpus"]
    )
    lost = tuple((int(index), str(why)) for index, why in record["lost"].items())
    return NvmlReading(record["driver"], gpus, lost)


def read_cuda(environment: Mapping[str, str], seconds: float = DRIVER_SECONDS) -> CudaReading:
    """Initialise the CUDA driver; takes tens of milliseconds without a GPU, up to seconds with several."""
    bare = {name: value for name, value in environment.items() if name != "CUDA_VISIBLE_DEVICES"}
    answer = ask(sys.executable, "cuda", environment=bare, seconds=seconds)
    record = answer.one("cuda")
    if record is None:
        return CudaReading(problem=_at(answer), hung=answer.hung)
    version = record.get("version")
    devices = record.get("devices") or ()
    return CudaReading(
        path=record.get("path"),
        library_error=record.get("library_error"),
        version=None if version is None else (version // 1000, version % 1000 // 10),
        init=record.get("init"),
        devices=tuple(
            CudaDevice(
                device["index"], device["name"], device["memory"], _pair(device["capability"]) or (0, 0)
            )
            for device in devices
            if "name" in device
        ),
    )


@dataclass(frozen=True)
class Library:
    """One CUDA library.

    Args:
        name: such as `libcudnn.so.9`.
        path: where it was found; its name if the loader found it; `None` if it is missing or does not load.
        version: cuDNN's own version number, such as 91002.
        error: why it does not load although it exists.
    """

    name: str
    path: str | None = None
    version: int | None = None
    error: str | None = None


@dataclass(frozen=True)
class Libraries:
    """Results of loading libraries one by one; `problem` is how the probe failed."""

    libraries: tuple[Library, ...] = ()
    problem: str | None = None


def read_libraries(
    python: str,
    environment: Mapping[str, str],
    names: Sequence[str],
    folders: Sequence[str],
    *,
    load: bool,
    seconds: float = LIBRARIES_SECONDS,
) -> Libraries:
    """Find CUDA libraries as a program of that interpreter would.

    Args:
        names: each after those that it depends on.
        folders: of wheels, such as `site-packages/nvidia/cudnn/lib`; searched after LD_LIBRARY_PATH and before the system's libraries.
        load: whether to load libraries from the folders too; takes seconds for all of CUDA from a cold disk.
    """
    wanted = json.dumps({"names": list(names), "folders": list(folders), "load": load})
    answer = ask(python, "libraries", wanted, environment=environment, seconds=seconds)
    found = tuple(
        Library(row["name"], row.get("path"), row.get("version"), row.get("error"))
        for row in answer.of("library")
    )
    return Libraries(found, None if answer.one("done") else _at(answer))


def _at(answer: Answer) -> str:
    at = f" at {answer.step}" if answer.step else ""
    return f"{answer.problem or 'produced no output'}{at}"


def _pair(value: list[int] | None) -> tuple[int, int] | None:
    return None if value is None else (value[0], value[1])
