"""Copies between page-locked host memory and the GPU, and no kernel: python copies.py SECONDS."""

import ctypes
import sys

from kernels import Gpu, until

SIZE = 256 * 1024 * 1024

gpu = Gpu()
device, host = gpu.allocate(SIZE), gpu.page_locked(SIZE)
for _ in until(float(sys.argv[1])):
    gpu.cuda.cuMemcpyHtoD_v2(device, host, ctypes.c_size_t(SIZE))
    gpu.cuda.cuMemcpyDtoH_v2(host, device, ctypes.c_size_t(SIZE))
