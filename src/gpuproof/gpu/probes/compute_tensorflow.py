"""Probe for the user's interpreter: computes with TensorFlow on every GPU and compares with the CPU's result.

Its argument is a JSON object: `device`, `GPU` or `CPU`.
"""

from __future__ import annotations

import ctypes
import importlib
import json
import sys
from typing import Any

from gpuproof.gpu.probe_record import emit

# See compute_torch.py.
TOLERANCE = {"float32": 1e-4, "float16": 5e-3, "bfloat16": 2e-2}
BFLOAT16_SINCE = 8
SIZE = 256


def main() -> None:
    wanted = json.loads(sys.argv[2])
    emit("step", name="import tensorflow")
    tf: Any = importlib.import_module("tensorflow")
    tf.config.experimental.enable_tensor_float_32_execution(False)
    # Otherwise TensorFlow would silently run unsupported operations on the CPU.
    tf.config.set_soft_device_placement(False)
    tf.random.set_seed(0)
    kind = wanted["device"]
    gpus = tf.config.list_physical_devices(kind)
    free = enable_growth(tf, gpus) if kind == "GPU" else None
    for index, gpu in enumerate(gpus):
        for dtype in types_of(tf, kind, gpu):
            for name, work in (("matmul", matmul), ("convolution", convolution)):
                attempt(tf, index, kind, name, dtype, work)
        attempt(tf, index, kind, "tf.function", "float32", compiled)
        if index == 0 and free is not None:
            report_growth(free)
    emit("done", version=str(tf.__version__))


def types_of(tf: Any, kind: str, gpu: Any) -> list[str]:
    if kind != "GPU":
        return ["float32", "float16", "bfloat16"]
    capability = tf.config.experimental.get_device_details(gpu).get("compute_capability") or (0, 0)
    return ["float32", "float16", "bfloat16"] if capability[0] >= BFLOAT16_SINCE else ["float32", "float16"]


def attempt(tf: Any, index: int, kind: str, name: str, dtype: str, work: Any) -> None:
    emit("step", name=f"{name} in {dtype} on GPU {index}")
    fact = {"gpu": index, "name": name, "dtype": dtype, "tolerance": TOLERANCE[dtype]}
    try:
        result, expected = work(tf, f"/{kind}:{index}", dtype)
        with tf.device("/CPU:0"):
            difference = tf.reduce_max(tf.abs(tf.cast(result, "float64") - expected))
            share = float(difference / tf.reduce_max(tf.abs(expected)))
        emit("work", device=str(result.device), deviation=share, **fact)
    except Exception as error:  # noqa: BLE001 - every error is the result
        emit("work", error=f"{type(error).__name__}: {error}"[:1000], **fact)


def rounded(tf: Any, shape: list[int], dtype: str) -> tuple[Any, Any]:
    """Random numbers of a type, and the same in float64, both on the CPU."""
    with tf.device("/CPU:0"):
        numbers = tf.cast(tf.random.uniform(shape, -0.5, 0.5), dtype)
        return numbers, tf.cast(numbers, "float64")


def matmul(tf: Any, device: str, dtype: str) -> tuple[Any, Any]:
    (a, exact_a), (b, exact_b) = (rounded(tf, [SIZE, SIZE], dtype) for _ in range(2))
    with tf.device("/CPU:0"):
        expected = tf.matmul(exact_a, exact_b)
    with tf.device(device):
        return tf.matmul(tf.identity(a), tf.identity(b)), expected


def convolution(tf: Any, device: str, dtype: str) -> tuple[Any, Any]:
    images, exact_images = rounded(tf, [4, 32, 32, 16], dtype)
    kernel, exact_kernel = rounded(tf, [3, 3, 16, 32], dtype)
    with tf.device("/CPU:0"):
        expected = tf.nn.conv2d(exact_images, exact_kernel, strides=1, padding="SAME")
    with tf.device(device):
        return tf.nn.conv2d(tf.identity(images), tf.identity(kernel), strides=1, padding="SAME"), expected


def compiled(tf: Any, device: str, dtype: str) -> tuple[Any, Any]:
    (a, exact_a), (b, exact_b) = (rounded(tf, [SIZE, SIZE], dtype) for _ in range(2))

    @tf.function
    def product(x: Any, y: Any) -> Any:
        return tf.nn.relu(tf.matmul(x, y))

    with tf.device("/CPU:0"):
        expected = tf.nn.relu(tf.matmul(exact_a, exact_b))
    with tf.device(device):
        return product(tf.identity(a), tf.identity(b)), expected


def enable_growth(tf: Any, gpus: list[Any]) -> tuple[int, int] | None:
    """Enable memory growth, and return free and total memory of the first GPU before TensorFlow initializes it."""
    emit("step", name="memory growth")
    try:
        for gpu in gpus:
            tf.config.experimental.set_memory_growth(gpu, True)
    except Exception as error:  # noqa: BLE001
        emit("growth", error=f"{type(error).__name__}: {error}"[:500])
        return None
    return free_memory()


def report_growth(free: tuple[int, int]) -> None:
    """Report how much memory TensorFlow used for small operations."""
    after = free_memory()
    if after is not None:
        emit("growth", taken=free[0] - after[0], total=after[1])


def free_memory() -> tuple[int, int] | None:
    """Free and total memory of the first GPU, in bytes; `None` if unknown."""
    try:
        cuda = ctypes.CDLL("libcuda.so.1")
        context, free, total = ctypes.c_void_p(), ctypes.c_size_t(), ctypes.c_size_t()
        steps = (
            lambda: cuda.cuInit(0),
            lambda: cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0),
            lambda: cuda.cuCtxSetCurrent(context),
            lambda: cuda.cuMemGetInfo_v2(ctypes.byref(free), ctypes.byref(total)),
        )
        return (free.value, total.value) if not any(step() for step in steps) else None
    except (OSError, AttributeError):
        return None


if __name__ == "__main__":
    main()
