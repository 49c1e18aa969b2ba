"""Probe: loads and initializes the CUDA driver library, and reports its path, version and devices."""

from __future__ import annotations

import ctypes
from typing import Any

from gpuproof.gpu.probe_record import emit

LIBRARY = "libcuda.so.1"
# CUdevice_attribute: https://docs.nvidia.com/cuda/cuda-driver-api/group__CUDA__TYPES.html
_MAJOR, _MINOR = 75, 76


def main() -> None:
    emit("step", name=f"dlopen {LIBRARY}")
    try:
        cuda = ctypes.CDLL(LIBRARY)
    except OSError as error:
        emit("cuda", library_error=str(error))
        return
    path = loaded_path()
    emit("step", name="cuDriverGetVersion")
    version = ctypes.c_int(0)
    version_code = cuda.cuDriverGetVersion(ctypes.byref(version))
    known = version.value if version_code == 0 and version.value else None
    emit("step", name="cuInit")
    code = int(cuda.cuInit(0))
    if code:
        emit("cuda", path=path, version=known, init=code)
        return
    count = ctypes.c_int(0)
    code = int(cuda.cuDeviceGetCount(ctypes.byref(count)))
    devices = [device(cuda, index) for index in range(count.value)]
    emit("cuda", path=path, version=known, init=0, count_code=code, devices=devices)


def loaded_path() -> str | None:
    """Path of the loaded library."""
    try:
        with open("/proc/self/maps", encoding="utf-8", errors="replace") as maps:  # noqa: PTH123
            paths = {line.split(maxsplit=5)[-1].strip() for line in maps if "/libcuda.so" in line}
    except OSError:
        return None
    return sorted(paths)[0] if paths else None


def device(cuda: ctypes.CDLL, index: int) -> dict[str, Any]:
    handle = ctypes.c_int(0)
    if cuda.cuDeviceGet(ctypes.byref(handle), index):
        return {"index": index}
    name = ctypes.create_string_buffer(256)
    cuda.cuDeviceGetName(name, len(name), handle)
    memory = ctypes.c_size_t(0)
    cuda.cuDeviceTotalMem_v2(ctypes.byref(memory), handle)
    capability = [attribute(cuda, which, handle) for which in (_MAJOR, _MINOR)]
    return {
        "index": index,
        "name": name.value.decode(errors="replace"),
        "memory": memory.value,
        "capability": capability,
    }


def attribute(cuda: ctypes.CDLL, which: int, handle: ctypes.c_int) -> int:
    value = ctypes.c_int(0)
    cuda.cuDeviceGetAttribute(ctypes.byref(value), which, handle)
    return value.value


if __name__ == "__main__":
    main()
