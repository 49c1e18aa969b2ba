"""CUDA libraries that frameworks load, by CUDA major version; `data/cuda_libraries.csv` has the source."""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

from gpuproof.util.csv_table import read_package_rows


class CudaLibrary(NamedTuple):
    """A CUDA library.

    Attributes:
        cuda: CUDA's major version.
        soname: such as `libcublas.so.12`.
        package: the wheel that contains it, such as `nvidia-cublas-cu12`.
    """

    cuda: int
    soname: str
    package: str


@cache
def cuda_libraries(major: int) -> tuple[CudaLibrary, ...]:
    """The libraries of a CUDA major version, each after those that it depends on; empty for an unknown version."""
    rows = read_package_rows("gpuproof.gpu", "data/cuda_libraries.csv")
    libraries = (CudaLibrary(int(row["cuda"]), row["soname"], row["package"]) for row in rows)
    return tuple(library for library in libraries if library.cuda == major)
