"""Probe: whether the CUDA driver library loads and starts, which one it is, and which devices it gives."""

from __future__ import annotations

import ctypes
import json
from typing import Any

LIBRARY = "libcuda.so.1"
# CUdevice_attribute: https://docs.nvidia.com/cuda/cuda-driver-api/group__CUDA__TYPES.html
_MAJOR, _MINOR = 75, 76


def tell(kind: str, **facts: Any) -> None:
    print("\x1egpuproof " + json.dumps({"kind": kind, **facts}), flush=True)


def main() -> None:
    tell("step", name=f"dlopen {LIBRARY}")
    try:
        cuda = ctypes.CDLL(LIBRARY)
    except OSError as error:
        tell("cuda", library_error=str(error))
        return
    path = loaded_path()
    tell("step", name="cuDriverGetVersion")
    version = ctypes.c_int(0)
    asked = cuda.cuDriverGetVersion(ctypes.byref(version))
    known = version.value if asked == 0 and version.value else None
    tell("step", name="cuInit")
    code = int(cuda.cuInit(0))
    if code:
        tell("cuda", path=path, version=known, init=code)
        return
    count = ctypes.c_int(0)
    code = int(cuda.cuDeviceGetCount(ctypes.byref(count)))
    devices = [device(cuda, index) for index in range(count.value)]
    tell("cuda", path=path, version=known, init=0, count_code=code, devices=devices)


def loaded_path() -> str | None:
    """Where the library that was loaded lies."""
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
