"""A kernel of one thread that occupies a multiprocessor and computes nothing, through the CUDA driver alone."""

from __future__ import annotations

import ctypes
import sys
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2] / "src"))

from gpuproof.gpu.probes.compute_kernel import Api, enter

# The driver compiles it for any GPU since Maxwell. It ends once `flag` is not 0, or after `limit` nanoseconds.
SPIN = b"""
.version 6.0
.target sm_52
.address_size 64
.visible .entry spin(.param .u64 flag, .param .u64 limit)
{
    .reg .pred %p<4>;
    .reg .u32 %r<2>;
    .reg .u64 %rd<5>;
    ld.param.u64 %rd1, [flag];
    ld.param.u64 %rd2, [limit];
    mov.u64 %rd3, %globaltimer;
    add.u64 %rd3, %rd3, %rd2;
    setp.eq.u64 %p1, %rd1, 0;
AGAIN:
    mov.u64 %rd4, %globaltimer;
    setp.ge.u64 %p2, %rd4, %rd3;
    @%p2 bra DONE;
    @%p1 bra AGAIN;
    ld.volatile.global.u32 %r1, [%rd1];
    setp.eq.u32 %p3, %r1, 0;
    @%p3 bra AGAIN;
DONE:
    ret;
}
"""


class Gpu:
    """The first GPU that this process sees, in its own context.

    Attributes:
        cuda: the driver's functions, which raise for any error.
    """

    def __init__(self) -> None:
        self.cuda = Api(ctypes.CDLL("libcuda.so.1"))
        self.cuda.cuInit(0)
        enter(self.cuda, 0)
        self._function: Any = None

    def allocate(self, size: int) -> ctypes.c_void_p:
        """Device memory of `size` bytes, filled with zeros."""
        pointer = ctypes.c_void_p()
        self.cuda.cuMemAlloc_v2(ctypes.byref(pointer), ctypes.c_size_t(size))
        self.cuda.cuMemsetD8_v2(pointer, 0, ctypes.c_size_t(size))
        return pointer

    def page_locked(self, size: int) -> ctypes.c_void_p:
        """Host memory that the copy engines read directly."""
        pointer = ctypes.c_void_p()
        self.cuda.cuMemAllocHost_v2(ctypes.byref(pointer), ctypes.c_size_t(size))
        return pointer

    def spin(self, seconds: float, flag: ctypes.c_void_p | None = None) -> None:
        """Start a kernel that lasts for a time, or until the 32-bit word at `flag` is not 0, and wait for it."""
        if self._function is None:
            module, self._function = ctypes.c_void_p(), ctypes.c_void_p()
            self.cuda.cuModuleLoadData(ctypes.byref(module), ctypes.c_char_p(SPIN))
            self.cuda.cuModuleGetFunction(ctypes.byref(self._function), module, b"spin")
        values = (flag or ctypes.c_void_p(), ctypes.c_uint64(int(seconds * 1e9)))
        parameters = (ctypes.c_void_p * 2)(*(ctypes.addressof(value) for value in values))
        self.cuda.cuLaunchKernel(self._function, 1, 1, 1, 1, 1, 1, 0, None, parameters, None)
        self.cuda.cuCtxSynchronize()


def until(seconds: float) -> Any:
    """Yield until `seconds` have passed."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        yield
