"""Probe, for the user's interpreter: what each GPU really does a second, with the framework named as its argument.

Tells of each GPU `memory_gb_s`, `fp32_tflops`, `tf32_tflops`, `fp16_tflops`, `bf16_tflops`, `h2d_gb_s` (and `pinned`),
as soon as it has them; what a GPU has no units for is left out.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
import time
from typing import Any, Callable

SECONDS = 0.25
"""How long each of three rounds takes; the best of them counts, for the others may have been disturbed."""
ROUNDS = 3
GIB = 1 << 30
SMALL_SIDE, LARGE_SIDE = 4096, 8192
"""Of the square matrices: large enough that the time is all arithmetic."""


def tell(kind: str, **facts: Any) -> None:
    print("\x1egpuproof " + json.dumps({"kind": kind, **facts}), flush=True)


def main() -> None:
    framework = sys.argv[2]
    # CUDA numbers the fastest first by itself, NVML by bus.
    os.environ.setdefault("CUDA_DEVICE_ORDER", "PCI_BUS_ID")
    os.environ.setdefault("TF_FORCE_GPU_ALLOW_GROWTH", "true")
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    tell("step", name=f"import {framework}")
    try:
        module: Any = importlib.import_module(framework)
    except BaseException as error:  # noqa: BLE001 - whatever it is, it is the answer
        tell("broken", error=f"{type(error).__name__}: {error}"[:2000])
        return
    measure = with_torch if framework == "torch" else with_tensorflow
    gpus = count(module, framework)
    tell("framework", name=framework, version=str(module.__version__), gpus=gpus)
    for index in range(gpus):
        tell("step", name=f"measuring GPU {index}")
        try:
            measure(module, index)
        except Exception as error:  # noqa: BLE001 - out of memory, a sick GPU: the others are still worth measuring
            tell("skipped", index=index, why=f"{type(error).__name__}: {error}"[:500])


def count(module: Any, framework: str) -> int:
    if framework == "torch":
        return int(module.cuda.device_count()) if module.cuda.is_available() else 0
    return len(module.config.list_physical_devices("GPU"))


def with_torch(torch: Any, index: int) -> None:
    torch.cuda.set_device(index)
    capability = torch.cuda.get_device_capability(index)
    free, _ = torch.cuda.mem_get_info(index)
    if free < GIB:
        tell("skipped", index=index, why=f"only {free >> 20} MiB of its memory are free")
        return
    wait = lambda: torch.cuda.synchronize(index)  # noqa: E731 - said once for all
    tell("rate", index=index, what="memory_gb_s", value=torch_memory(torch, min(GIB, free // 8) // 4, wait))
    tell("rate", index=index, what="h2d_gb_s", value=torch_link(torch, free // 4, wait), pinned=True)
    kinds = [("fp32_tflops", torch.float32, False), ("fp16_tflops", torch.float16, False)]
    if capability >= (8, 0):
        kinds += [("tf32_tflops", torch.float32, True), ("bf16_tflops", torch.bfloat16, False)]
    for what, dtype, tf32 in kinds:
        tell("step", name=f"measuring {what} of GPU {index}")
        torch.backends.cuda.matmul.allow_tf32 = tf32
        large = free > 4 * GIB and what != "fp32_tflops"
        side = LARGE_SIDE if large else SMALL_SIDE
        tell("rate", index=index, what=what, value=torch_product(torch, side, dtype, wait))
    torch.cuda.empty_cache()


def torch_memory(torch: Any, words: int, wait: Callable[[], Any]) -> float:
    source = torch.ones(words, dtype=torch.float32, device="cuda")
    target = torch.empty_like(source)
    return 2 * 4 * words / best_time(lambda: target.copy_(source), wait) / 1e9


def torch_link(torch: Any, most: int, wait: Callable[[], Any]) -> float:
    size = min(256 << 20, most)
    here = torch.empty(size, dtype=torch.uint8, pin_memory=True)
    there = torch.empty(size, dtype=torch.uint8, device="cuda")
    return size / best_time(lambda: there.copy_(here, non_blocking=True), wait) / 1e9


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
        tell("rate", index=index, what="memory_gb_s", value=2 * 4 * words / seconds / 1e9)

        kinds = [("fp32_tflops", tf.float32, False), ("fp16_tflops", tf.float16, False)]
        if tuple(capability) >= (8, 0):
            kinds += [("tf32_tflops", tf.float32, True), ("bf16_tflops", tf.bfloat16, False)]
        for what, dtype, tf32 in kinds:
            tell("step", name=f"measuring {what} of GPU {index}")
            tf.config.experimental.enable_tensor_float_32_execution(tf32)
            # Scaled so that the product of many stays within the range of 16 bits.
            a = tf.cast(tf.random.normal([side, side]), dtype)
            b = tf.cast(tf.random.normal([side, side], stddev=side**-0.5), dtype)
            multiply = repeated(tf, lambda x, b=b: tf.linalg.matmul(x, b))
            seconds = steady_time(lambda times, a=a, multiply=multiply: float(multiply(a, times)[0, 0]))
            tell("rate", index=index, what=what, value=2 * side**3 / seconds / 1e12)


def repeated(tf: Any, step: Callable[[Any], Any]) -> Callable[[Any, int], Any]:
    """A graph that does a step so many times; a loop of its own, for AutoGraph reads sources, and this has no file."""

    def going(done: Any, _: Any, times: Any) -> Any:
        return done < times

    def once_more(done: Any, x: Any, times: Any) -> Any:
        return done + 1, step(x), times

    def run(x: Any, times: Any) -> Any:
        return tf.while_loop(going, once_more, (tf.constant(0), x, times))[1]

    graph = tf.function(run, autograph=False)
    return lambda x, times: graph(x, tf.constant(times))


def best_time(work: Callable[[], Any], wait: Callable[[], Any]) -> float:
    """Seconds that one call takes: many are started, and only their end is waited for."""

    def many(times: int) -> None:
        for _ in range(times):
            work()
        wait()

    return steady_time(many)


def steady_time(many: Callable[[int], Any]) -> float:
    """Seconds that one of `many(times)` takes, in the best of some rounds of about `SECONDS` each."""
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
