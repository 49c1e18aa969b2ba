"""Probe, for the user's interpreter: PyTorch's build and what it makes of this machine's GPUs."""

from __future__ import annotations

import importlib
import json
import warnings
from typing import Any


def tell(kind: str, **facts: Any) -> None:
    print("\x1egpuproof " + json.dumps({"kind": kind, **facts}), flush=True)


def main() -> None:
    tell("step", name="import torch")
    try:
        torch: Any = importlib.import_module("torch")
    except BaseException as error:  # noqa: BLE001 - whatever it is, it is the answer
        tell("broken", error=f"{type(error).__name__}: {error}"[:2000])
        return
    flags = getattr(torch._C, "_cuda_getArchFlags", lambda: None)()  # noqa: SLF001 - answers without a GPU
    build = {
        "version": str(torch.__version__),
        "cuda": torch.version.cuda,
        "hip": getattr(torch.version, "hip", None),
        "architectures": flags.split() if flags else [],
    }
    tell("build", **build)
    if build["cuda"] is None:
        tell("devices", available=False, said=None, devices=[])
        return
    tell("step", name="torch.cuda.is_available()")
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        available = bool(torch.cuda.is_available())
        said = "\n".join(str(warning.message) for warning in heard) or None
    if not available:
        try:
            torch.cuda.init()
        except Exception as error:  # noqa: BLE001
            said = f"{type(error).__name__}: {error}"
        tell("devices", available=False, said=said, devices=[])
        return
    tell("step", name="torch.cuda.get_device_properties()")
    devices = [describe(torch, index) for index in range(torch.cuda.device_count())]
    tell("devices", available=True, said=said, devices=devices)
    tell("step", name="torch.backends.cudnn.version()")
    try:
        tell("cudnn", version=torch.backends.cudnn.version())
    except Exception as error:  # noqa: BLE001 - a cuDNN older than the build's is refused here
        tell("cudnn", version=None, error=f"{type(error).__name__}: {error}")


def describe(torch: Any, index: int) -> dict[str, Any]:
    properties = torch.cuda.get_device_properties(index)
    return {
        "index": index,
        "name": properties.name,
        "capability": [properties.major, properties.minor],
        "memory": properties.total_memory,
    }


if __name__ == "__main__":
    main()
