"""Probe for the user's interpreter: PyTorch's build, and the GPUs that it sees."""

from __future__ import annotations

import importlib
import warnings
from typing import Any

from gpuproof.gpu.probe_record import emit


def main() -> None:
    emit("step", name="import torch")
    try:
        torch: Any = importlib.import_module("torch")
    except BaseException as error:  # noqa: BLE001 - every error is the result
        emit("broken", error=f"{type(error).__name__}: {error}"[:2000])
        return
    flags = getattr(torch._C, "_cuda_getArchFlags", lambda: None)()  # noqa: SLF001 - works without a GPU
    build = {
        "version": str(torch.__version__),
        "cuda": torch.version.cuda,
        "hip": getattr(torch.version, "hip", None),
        "architectures": flags.split() if flags else [],
    }
    emit("build", **build)
    emit("numpy", error=numpy_error(torch))
    if build["cuda"] is None:
        emit("devices", available=False, said=None, devices=[])
        return
    emit("step", name="torch.cuda.is_available()")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        available = bool(torch.cuda.is_available())
        said = "\n".join(str(warning.message) for warning in caught) or None
    if not available:
        try:
            torch.cuda.init()
        except Exception as error:  # noqa: BLE001
            said = f"{type(error).__name__}: {error}"
        emit("devices", available=False, said=said, devices=[])
        return
    emit("step", name="torch.cuda.get_device_properties()")
    devices = [describe(torch, index) for index in range(torch.cuda.device_count())]
    emit("devices", available=True, said=said, devices=devices)
    emit("step", name="torch.backends.cudnn.version()")
    try:
        emit("cudnn", version=torch.backends.cudnn.version())
    except Exception as error:  # noqa: BLE001 - raised for a cuDNN older than the build's
        emit("cudnn", version=None, error=f"{type(error).__name__}: {error}")


def numpy_error(torch: Any) -> str | None:
    """Why tensors cannot be converted to NumPy arrays, such as a build for another major version of NumPy."""
    try:
        torch.zeros(1).numpy()
    except Exception as error:  # noqa: BLE001 - the error is the result
        return f"{type(error).__name__}: {error}"
    return None


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
