"""Probe for the user's interpreter: runs a small CUDA kernel on every GPU, without any framework.

It compiles the sum of two vectors with NVRTC for each GPU, launches it through the driver API and checks the result. Its
argument is a JSON object: `names` of NVRTC libraries, newest first, and `folders` that may contain them.

Functions and structures: https://docs.nvidia.com/cuda/cuda-driver-api/ and https://docs.nvidia.com/cuda/nvrtc/
"""

from __future__ import annotations

import array
import ctypes
import json
import sys
from typing import Any

from gpuproof.gpu.probe_record import emit

SOURCE = b"""
extern "C" __global__ void add(float *out, const float *a, const float *b, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = a[i] + b[i];
}
"""
COUNT = 1 << 20
BLOCK = 256
# If NVRTC is older than the GPU, the driver compiles PTX for the newest architecture that NVRTC knows.
FALLBACK = ("compute_90", "compute_80", "compute_75", "compute_70", "compute_52")


class CallFailed(Exception):
    """A function returned an error code."""


def main() -> None:
    wanted = json.loads(sys.argv[2])
    emit("step", name="loading NVRTC")
    nvrtc = find_nvrtc(wanted["names"], wanted["folders"])
    emit("step", name="cuInit")
    cuda = Api(ctypes.CDLL("libcuda.so.1"))
    cuda.cuInit(0)
    count = ctypes.c_int()
    cuda.cuDeviceGetCount(ctypes.byref(count))
    for index in range(count.value):
        emit("step", name=f"a CUDA kernel on GPU {index}")
        try:
            context = enter(cuda, index)
            if nvrtc is not None:
                emit("kernel", gpu=index, **run(cuda, nvrtc, index))
            cuda.cuDevicePrimaryCtxRelease_v2(context)
        except CallFailed as error:
            emit("kernel", gpu=index, error=str(error))
    emit("done", nvrtc=nvrtc is not None)


class Api:
    """A library whose functions raise `CallFailed` for any code but 0."""

    def __init__(self, library: ctypes.CDLL) -> None:
        self._library = library

    def __getattr__(self, name: str) -> Any:
        function = getattr(self._library, name)

        def call(*arguments: Any) -> None:
            code = function(*arguments)
            if code:
                raise CallFailed(f"{name} returned error {code}")

        return call


def find_nvrtc(names: list[str], folders: list[str]) -> Api | None:
    """Load the newest NVRTC; `None` if there is none."""
    paths = [path for name in names for path in (name, *(f"{folder}/{name}" for folder in folders))]
    return next((Api(library) for library in map(load, paths) if library is not None), None)


def load(path: str) -> ctypes.CDLL | None:
    try:
        return ctypes.CDLL(path)
    except OSError:
        return None


def enter(cuda: Api, index: int) -> ctypes.c_int:
    """Make a GPU current; returns its device handle."""
    device, context = ctypes.c_int(), ctypes.c_void_p()
    cuda.cuDeviceGet(ctypes.byref(device), index)
    cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), device)
    cuda.cuCtxSetCurrent(context)
    return device


def run(cuda: Api, nvrtc: Api, index: int) -> dict[str, Any]:
    """Compile, launch and check the kernel; returns the number of wrong sums."""
    module, function = ctypes.c_void_p(), ctypes.c_void_p()
    target, image = compile_for(cuda, nvrtc, index)
    cuda.cuModuleLoadData(ctypes.byref(module), image)
    cuda.cuModuleGetFunction(ctypes.byref(function), module, b"add")
    a = array.array("f", range(COUNT))
    b = array.array("f", (0.5 * (i % 1000) for i in range(COUNT)))
    size = ctypes.c_size_t(COUNT * a.itemsize)
    pointers = [ctypes.c_void_p() for _ in range(3)]
    for pointer in pointers:
        cuda.cuMemAlloc_v2(ctypes.byref(pointer), size)
    for pointer, host in zip(pointers[1:], (a, b)):
        cuda.cuMemcpyHtoD_v2(pointer, ctypes.c_void_p(host.buffer_info()[0]), size)
    count = ctypes.c_int(COUNT)
    parameters = (ctypes.c_void_p * 4)(*(ctypes.addressof(value) for value in (*pointers, count)))
    blocks = (COUNT + BLOCK - 1) // BLOCK
    cuda.cuLaunchKernel(function, blocks, 1, 1, BLOCK, 1, 1, 0, None, parameters, None)
    cuda.cuCtxSynchronize()
    out = array.array("f", bytes(COUNT * a.itemsize))
    cuda.cuMemcpyDtoH_v2(ctypes.c_void_p(out.buffer_info()[0]), pointers[0], size)
    for pointer in pointers:
        cuda.cuMemFree_v2(pointer)
    # The same sums in the same type must be bitwise equal.
    expected = array.array("f", map(float.__add__, a, b))
    wrong = 0 if out == expected else sum(1 for x, y in zip(out, expected) if x != y)
    return {"target": target, "wrong": wrong, "of": COUNT}


def compile_for(cuda: Api, nvrtc: Api, index: int) -> tuple[str, ctypes.Array[ctypes.c_char]]:
    """Compile the kernel to a binary for the GPU, or else to PTX; returns target and image."""
    numbers = [ctypes.c_int(), ctypes.c_int()]
    for number, attribute in zip(numbers, (75, 76)):
        cuda.cuDeviceGetAttribute(ctypes.byref(number), attribute, index)
    native = f"sm_{numbers[0].value}{numbers[1].value}"
    problem = ""
    for target in (native, *FALLBACK):
        program = ctypes.c_void_p()
        nvrtc.nvrtcCreateProgram(ctypes.byref(program), SOURCE, b"add.cu", 0, None, None)
        options = (ctypes.c_char_p * 1)(f"--gpu-architecture={target}".encode())
        try:
            nvrtc.nvrtcCompileProgram(program, 1, options)
            kind = "CUBIN" if target == native else "PTX"
            size = ctypes.c_size_t()
            getattr(nvrtc, f"nvrtcGet{kind}Size")(program, ctypes.byref(size))
            image = ctypes.create_string_buffer(size.value)
            getattr(nvrtc, f"nvrtcGet{kind}")(program, image)
            return target, image
        except (CallFailed, AttributeError) as error:  # NVRTC before 11.1 has no CUBIN
            problem = problem or f"NVRTC for {target}: {error}"
        finally:
            nvrtc.nvrtcDestroyProgram(ctypes.byref(program))
    raise CallFailed(problem)


if __name__ == "__main__":
    main()
