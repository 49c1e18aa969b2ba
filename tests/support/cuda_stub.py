"""Builds the stub `libcuda.so.1`, the stub `libnvrtc.so` and a stand-in for any other CUDA library."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

SOURCES = Path(__file__).with_name("cuda")
CUDA_VARIABLE = "GPUPROOF_CUDA_STUB"
"""Names the configuration file of the stub libcuda; `cuda/cuda_stub.c` describes it."""


def build_cuda(folder: Path) -> Path:
    """The folder that holds `libcuda.so.1`; skips where there is no compiler."""
    return _built(folder / "cuda" / "libcuda.so.1", "cuda_stub.c").parent


def build_nvrtc(folder: Path, name: str = "libnvrtc.so.12") -> Path:
    """A `libnvrtc`."""
    return _built(folder / "nvrtc" / name, "nvrtc_stub.c")


def build_any(folder: Path) -> Path:
    """A library that loads and does nothing, to be copied under any name."""
    return _built(folder / "any" / "libany.so", "library_stub.c", named=False)


def _built(library: Path, source: str, *, named: bool = True) -> Path:
    compiler = shutil.which("gcc") or shutil.which("cc")
    if compiler is None:
        pytest.skip("the CUDA stubs need a C compiler, and there is none (apt-get install gcc)")
    if library.exists():
        return library
    library.parent.mkdir(parents=True, exist_ok=True)
    # A name of its own for each process, then a rename: test workers may build into one folder at once.
    unfinished = library.with_name(f"{os.getpid()}.so")
    command = [compiler, "-O1", "-shared", "-fPIC", "-fvisibility=hidden"]
    command += [f"-Wl,-soname,{library.name}"] if named else []
    subprocess.run(
        [*command, "-o", str(unfinished), str(SOURCES / source), "-ldl"], check=True, capture_output=True
    )
    unfinished.replace(library)
    return library
