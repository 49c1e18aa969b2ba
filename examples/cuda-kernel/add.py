"""A CUDA kernel on the memory of TensorFlow's tensors, compiled when the script runs.

NVRTC, the compiler, is one of the libraries that `tensorflow[and-cuda]` and `cuda-core[cu12]` install from PyPI. The machine
needs NVIDIA's driver and no CUDA toolkit; to compile for a GPU, as `--compile-for sm_75` does, it needs no GPU either.
"""

import argparse
import time
from typing import Any

import numpy as np
from cuda.core import Device, Kernel, LaunchConfig, Program, ProgramOptions, launch
from cuda.core.utils import StridedMemoryView

SOURCE = """
extern "C" __global__ void add(float *out, const float *a, const float *b, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = a[i] + b[i];
}
"""
THREADS = 256
"""Threads of a block."""
ELEMENTS = 2**24
"""Of each vector: 64 MiB."""


def main() -> None:
    arguments = parse_arguments()
    if arguments.compile_for:
        print(f"add() for {arguments.compile_for}: {len(compile_add(arguments.compile_for).code):,} bytes")
        return
    compute(arguments.seconds)


def compile_add(architecture: str) -> Any:
    """Machine code for an architecture such as sm_75 (compute capability 7.5); raises NVRTC's error with its log."""
    options = ProgramOptions(std="c++17", arch=architecture)
    return Program(SOURCE, code_type="c++", options=options).compile("cubin")


def compute(seconds: float) -> None:
    """Add two of TensorFlow's tensors for this time, and compare the sum with TensorFlow's own."""
    import tensorflow as tf  # compiling does without it

    import gpuproof.runtime as rt

    with tf.device(rt.device()):  # an error where there is no usable GPU
        a, b = tf.random.uniform([ELEMENTS]), tf.random.uniform([ELEMENTS])
        out = tf.zeros([ELEMENTS])
    device = Device()
    device.set_current()
    kernel = compile_add(f"sm_{device.arch}").get_kernel("add")

    stream = device.create_stream()
    launches = launch_for(seconds, stream, kernel, out, a, b)
    error = float(tf.reduce_max(tf.abs(out - (a + b))))
    print(f"add() on {device.name}: {launches:,} launches, largest difference from TensorFlow's sum: {error}")
    if error:
        raise SystemExit("The kernel and TensorFlow disagree.")


class SharedTensor:
    """A tensor of TensorFlow for DLPack, which shares its memory without a copy; newer tensors have these methods themselves."""

    def __init__(self, tensor: Any) -> None:
        self._tensor = tensor

    def __dlpack__(self, **_options: Any) -> Any:
        import tensorflow as tf

        return tf.experimental.dlpack.to_dlpack(self._tensor)  # once TensorFlow has computed it

    def __dlpack_device__(self) -> tuple[int, int]:
        return (2 if "GPU" in self._tensor.device else 1, 0)


def launch_for(seconds: float, stream: Any, kernel: Kernel, out: Any, a: Any, b: Any) -> int:
    """Launch the kernel again and again; returns how often."""
    # Nothing else may use `out` meanwhile: TensorFlow takes its tensors for constant.
    views = [StridedMemoryView.from_dlpack(SharedTensor(tensor), stream_ptr=-1) for tensor in (out, a, b)]
    config = LaunchConfig(grid=-(-ELEMENTS // THREADS), block=THREADS)
    end, launches = time.monotonic() + seconds, 0
    while time.monotonic() < end:
        for _ in range(10):
            launch(stream, config, kernel, *(view.ptr for view in views), np.int32(ELEMENTS))
        stream.sync()
        launches += 10
    return launches


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--compile-for", metavar="sm_75")
    return parser.parse_args()


if __name__ == "__main__":
    main()
