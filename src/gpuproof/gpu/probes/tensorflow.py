"""Probe, for the user's interpreter: TensorFlow's build and what it makes of this machine's GPUs."""

from __future__ import annotations

import importlib
import json
from typing import Any


def tell(kind: str, **facts: Any) -> None:
    print("\x1egpuproof " + json.dumps({"kind": kind, **facts}), flush=True)


def main() -> None:
    tell("step", name="import tensorflow")
    try:
        tf: Any = importlib.import_module("tensorflow")
        info = dict(tf.sysconfig.get_build_info())
    except BaseException as error:  # noqa: BLE001 - whatever it is, it is the answer
        tell("broken", error=f"{type(error).__name__}: {error}"[:2000])
        return
    tell(
        "build",
        version=str(tf.__version__),
        cuda_build=bool(info.get("is_cuda_build")),
        rocm_build=bool(info.get("is_rocm_build")),
        cuda=info.get("cuda_version"),
        cudnn=info.get("cudnn_version"),
        architectures=[str(one) for one in info.get("cuda_compute_capabilities") or ()],
    )
    tell("step", name="tf.config.list_physical_devices('GPU')")
    try:
        devices = [
            describe(tf, index, gpu) for index, gpu in enumerate(tf.config.list_physical_devices("GPU"))
        ]
    except Exception as error:  # noqa: BLE001
        tell("devices", devices=[], said=f"{type(error).__name__}: {error}")
        return
    tell("devices", devices=devices, said=None)


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
