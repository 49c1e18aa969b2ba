"""NVML and the CUDA driver, asked in processes of their own, and the CUDA libraries, one by one."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from gpuproof.gpu.nvml import LIBRARY_NOT_FOUND, GpuInfo
from gpuproof.gpu.probe_process import Answer, ask, own_environment

DRIVER_SECONDS = 60.0
"""Without persistence mode a driver takes seconds to wake eight GPUs; one that takes longer than this is stuck."""

LIBRARIES_SECONDS = 120.0


@dataclass(frozen=True)
class NvmlReading:
    """What NVML says.

    Args:
        driver: the driver's version, such as `580.95.05`.
        gpus: every GPU, whatever `CUDA_VISIBLE_DEVICES` says.
        lost: why a GPU does not answer, by index.
        problem: why NVML cannot be used, in words.
        code: NVML's return code for it.
        hung: whether NVML never answered.
    """

    driver: str | None = None
    gpus: tuple[GpuInfo, ...] = ()
    lost: tuple[tuple[int, str], ...] = ()
    problem: str | None = None
    code: int | None = None
    hung: bool = False

    @property
    def library_missing(self) -> bool:
        """Whether there is no NVML library at all."""
        return self.code == LIBRARY_NOT_FOUND


@dataclass(frozen=True)
class CudaDevice:
    """A device as the CUDA driver gives it. Memory in bytes."""

    index: int
    name: str = ""
    memory: int = 0
    capability: tuple[int, int] = (0, 0)


@dataclass(frozen=True)
class CudaReading:
    """What the CUDA driver library says, with `CUDA_VISIBLE_DEVICES` out of the way.

    Args:
        path: the library that was loaded.
        library_error: why none could be loaded.
        version: the newest CUDA that it runs, such as (12, 4).
        init: what `cuInit` returned; `None` where it was not reached.
        devices: what it gives.
        problem: how the asking process ended if not well, in words, with what it was at.
        hung: whether it never answered.
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
        """Whether there is no such library, rather than one that does not load."""
        return (
            self.library_error is not None and "cannot open shared object file: No such" in self.library_error
        )

    @property
    def compat(self) -> bool:
        """Whether a cuda-compat package stands in for the driver's own library, as AWS's containers have it.

        Source: https://docs.nvidia.com/deploy/cuda-compatibility/forward-compatibility.html
        """
        return self.path is not None and "/compat/" in self.path


def read_nvml(environment: Mapping[str, str], seconds: float = DRIVER_SECONDS) -> NvmlReading:
    """Asks NVML; takes about a tenth of a second on a sound machine."""
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
    """Asks the CUDA driver to start; takes some tens of milliseconds without a GPU, up to seconds with several."""
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
            CudaDevice(one["index"], one["name"], one["memory"], _pair(one["capability"]) or (0, 0))
            for one in devices
            if "name" in one
        ),
    )


@dataclass(frozen=True)
class Library:
    """One CUDA library.

    Args:
        name: such as `libcudnn.so.9`.
        path: where it was found; its bare name where the loader found it; `None` where it does not load or is not.
        version: what cuDNN says of itself, such as 91002.
        error: why it does not load although it is there.
    """

    name: str
    path: str | None = None
    version: int | None = None
    error: str | None = None


@dataclass(frozen=True)
class Libraries:
    """What became of loading libraries one by one; `problem` says what broke the process that did."""

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
    """Looks for CUDA libraries as a program of that interpreter would find them.

    Args:
        names: each after those that it needs.
        folders: where to look when the loader finds nothing, such as `site-packages/nvidia/cudnn/lib`.
        load: whether to load what the folders have too: seconds for all of CUDA from a cold disk.
    """
    wanted = json.dumps({"names": list(names), "folders": list(folders), "load": load})
    answer = ask(python, "libraries", wanted, environment=environment, seconds=seconds)
    found = tuple(
        Library(one["name"], one.get("path"), one.get("version"), one.get("error"))
        for one in answer.of("library")
    )
    return Libraries(found, None if answer.one("done") else _at(answer))


def _at(answer: Answer) -> str:
    at = f" at {answer.step}" if answer.step else ""
    return f"{answer.problem or 'said nothing'}{at}"


def _pair(value: list[int] | None) -> tuple[int, int] | None:
    return None if value is None else (value[0], value[1])
