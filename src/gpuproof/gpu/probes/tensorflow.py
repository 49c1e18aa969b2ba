"""Probe for the user's interpreter: TensorFlow's build, and the GPUs that it sees."""

from __future__ import annotations

import importlib
from typing import Any

from gpuproof.gpu.probe_record import emit


def main() -> None:
    emit("step", name="import tensorflow")
    try:
        tf: Any = importlib.import_module("tensorflow")
        info = dict(tf.sysconfig.get_build_info())
    except BaseException as error:  # noqa: BLE001 - every error is the result
        emit("broken", error=f"{type(error).__name__}: {error}"[:2000])
        return
    emit(
        "build",
        version=str(tf.__version__),
        cuda_build=bool(info.get("is_cuda_build")),
        rocm_build=bool(info.get("is_rocm_build")),
        cuda=info.get("cuda_version"),
        cudnn=info.get("cudnn_version"),
        architectures=[str(capability) for capability in info.get("cuda_compute_capabilities") or ()],
    )
    emit("step", name="tf.config.list_physical_devices('GPU')")
    try:
        devices = [
            describe(tf, index, gpu) for index, gpu in enumerate(tf.config.list_physical_devices("GPU"))
        ]
    except Exception as error:  # noqa: BLE001
        emit("devices", devices=[], said=f"{type(error).__name__}: {error}")
        return
    emit("devices", devices=devices, said=None)


def describe(tf: Any, index: int, gpu: Any) -> dict[str, Any]:
    details = tf.config.experimental.get_device_details(gpu)
    capability = details.get("compute_capability")
    return {
        "index": index,
        "name": details.get("device_name") or gpu.name,
        "capability": list(capability) if capability else None,
    }


if __name__ == "__main__":
    main()
