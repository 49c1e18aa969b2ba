"""Probe for the user's interpreter: measures the rates of each GPU with the framework in its argument.

Emits `memory_gb_s`, `fp32_tflops`, `tf32_tflops`, `fp16_tflops`, `bf16_tflops` and `h2d_gb_s` (with `pinned`) of each GPU;
types without hardware support are omitted.
"""

from __future__ import annotations

import importlib
import os
import sys
import time
from typing import Any, Callable

from gpuproof.gpu.probe_record import emit

SECONDS = 0.25
"""Duration of each round; the best round counts, since others may have been disturbed."""
ROUNDS = 3
GIB = 1 << 30
SMALL_SIDE, LARGE_SIDE = 4096, 8192
"""Sizes of the square matrices, large enough that arithmetic dominates."""


def main() -> None:
    framework = sys.argv[2]
    # By default, CUDA numbers the fastest GPU first, NVML by PCI bus.
    os.environ.setdefault("CUDA_DEVICE_ORDER", "PCI_BUS_ID")
    os.environ.setdefault("TF_FORCE_GPU_ALLOW_GROWTH", "true")
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    emit("step", name=f"import {framework}")
    try:
        module: Any = importlib.import_module(framework)
    except BaseException as error:  # noqa: BLE001 - every error is the result
        emit("broken", error=f"{type(error).__name__}: {error}"[:2000])
        return
    measure = with_torch if framework == "torch" else with_tensorflow
    gpus = count(module, framework)
    emit("framework", name=framework, version=str(module.__version__), gpus=gpus)
    for index in range(gpus):
        emit("step", name=f"measuring GPU {index}")
        try:
            measure(module, index)
        except Exception as error:  # noqa: BLE001 - out of memory or a broken GPU: the others can still be measured
            emit("skipped", index=index, why=f"{type(error).__name__}: {error}"[:500])


def count(module: Any, framework: str) -> int:
    if framework == "torch":
        return int(module.cuda.device_count()) if module.cuda.is_available() else 0
    return len(module.config.list_physical_devices("GPU"))


def with_torch(torch: Any, index: int) -> None:
    torch.cuda.set_device(index)
    capability = torch.cuda.get_device_capability(index)
    free, _ = torch.cuda.mem_get_info(index)
    if free < GIB:
        emit("skipped", index=index, why=f"only {free >> 20} MiB of its memory is free")
        return
    wait = lambda: torch.cuda.synchronize(index)  # noqa: E731 - used several times
    emit("rate", index=index, what="memory_gb_s", value=torch_memory(torch, min(GIB, free // 8) // 4, wait))
    emit("rate", index=index, what="h2d_gb_s", value=torch_link(torch, free // 4, wait), pinned=True)
    kinds = [("fp32_tflops", torch.float32, False), ("fp16_tflops", torch.float16, False)]
    if capability >= (8, 0):
        kinds += [("tf32_tflops", torch.float32, True), ("bf16_tflops", torch.bfloat16, False)]
    for what, dtype, tf32 in kinds:
        emit("step", name=f"measuring {what} of GPU {index}")
        torch.backends.cuda.matmul.allow_tf32 = tf32
        large = free > 4 * GIB and what != "fp32_tflops"
        side = LARGE_SIDE if large else SMALL_SIDE
        emit("rate", index=index, what=what, value=torch_product(torch, side, dtype, wait))
    torch.cuda.empty_cache()


def torch_memory(torch: Any, words: int, wait: Callable[[], Any]) -> float:
    source = torch.ones(words, dtype=torch.float32, device="cuda")
    target = torch.empty_like(source)
    return 2 * 4 * words / best_time(lambda: target.copy_(source), wait) / 1e9


def torch_link(torch: Any, max_bytes: int, wait: Callable[[], Any]) -> float:
    size = min(256 << 20, max_bytes)
    source = torch.empty(size, dtype=torch.uint8, pin_memory=True)
    target = torch.empty(size, dtype=torch.uint8, device="cuda")
    return size / best_time(lambda: target.copy_(source, non_blocking=True), wait) / 1e9


def torch_product(torch: Any, side: int, dtype: Any, wait: Callable[[], Any]) -> float:
    a = torch.randn(side, side, device="cuda").to(dtype)
    b = torch.randn(side, side, device="cuda").to(dtype)
    out = torch.empty_like(a)
    return 2 * side**3 / best_time(lambda: torch.mm(a, b, out=out), wait) / 1e12


def with_tensorflow(tf: Any, index: int) -> None:
    gpu = tf.config.list_physical_devices("GPU")[index]
    capability = tf.config.experimental.get_device_details(gpu).get("compute_capability") or (0, 0)
    side = SMALL_SIDE
    with tf.device(f"/GPU:{index}"):
        words = (256 << 20) // 4
        vector = tf.ones([words], tf.float32)

        stream = repeated(tf, lambda x: x + 1.0)
        seconds = steady_time(lambda times: float(stream(vector, times)[0]))
        emit("rate", index=index, what="memory_gb_s", value=2 * 4 * words / seconds / 1e9)

        kinds = [("fp32_tflops", tf.float32, False), ("fp16_tflops", tf.float16, False)]
        if tuple(capability) >= (8, 0):
            kinds += [("tf32_tflops", tf.float32, True), ("bf16_tflops", tf.bfloat16, False)]
        for what, dtype, tf32 in kinds:
            emit("step", name=f"measuring {what} of GPU {index}")
            tf.config.experimental.enable_tensor_float_32_execution(tf32)
            # Scaled so that the product of many matrices stays within the range of 16 bits.
            a = tf.cast(tf.random.normal([side, side]), dtype)
            b = tf.cast(tf.random.normal([side, side], stddev=side**-0.5), dtype)
            multiply = repeated(tf, lambda x, b=b: tf.linalg.matmul(x, b))
            seconds = steady_time(lambda times, a=a, multiply=multiply: float(multiply(a, times)[0, 0]))
            emit("rate", index=index, what=what, value=2 * side**3 / seconds / 1e12)


def repeated(tf: Any, step: Callable[[Any], Any]) -> Callable[[Any, int], Any]:
    """A graph that repeats a step; uses `tf.while_loop`, since AutoGraph needs a source file and a probe has none."""

    def is_unfinished(done: Any, _: Any, times: Any) -> Any:
        return done < times

    def repeat_step(done: Any, x: Any, times: Any) -> Any:
        return done + 1, step(x), times

    def run(x: Any, times: Any) -> Any:
        return tf.while_loop(is_unfinished, repeat_step, (tf.constant(0), x, times))[1]

    graph = tf.function(run, autograph=False)
    return lambda x, times: graph(x, tf.constant(times))


def best_time(work: Callable[[], Any], wait: Callable[[], Any]) -> float:
    """Seconds per call: many calls are started, and only the end of all is awaited."""

    def many(times: int) -> None:
        for _ in range(times):
            work()
        wait()

    return steady_time(many)


def steady_time(many: Callable[[int], Any]) -> float:
    """Seconds per call in `many(times)`, in the best of several rounds of about `SECONDS` each."""
    many(2)
    began = time.perf_counter()
    many(4)
    once = (time.perf_counter() - began) / 4
    times = max(4, min(2000, int(SECONDS / once)))
    rounds = []
    for _ in range(ROUNDS):
        began = time.perf_counter()
        many(times)
        rounds.append((time.perf_counter() - began) / times)
    return min(rounds)


if __name__ == "__main__":
    main()
