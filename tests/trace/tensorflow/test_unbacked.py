"""Tensors of zeros that take no memory."""

from __future__ import annotations

import subprocess
import sys

import pytest

from support.optional_packages import skip_without

skip_without("tensorflow")
pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("keras-eager")]

SCRIPT = """
import resource
import tensorflow as tf
from gpuproof.trace.tensorflow.unbacked import unbacked_zeros

def used():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

before = used()
kept = [unbacked_zeros((1 << 30, 4), tf.float32), unbacked_zeros((1 << 20, 1 << 10), tf.bfloat16)]
kept += [unbacked_zeros((1 << 28,), dtype) for dtype in (tf.bool, tf.int64, tf.float16, tf.complex64)]
kept += [unbacked_zeros((3, 2), tf.float8_e5m2) if hasattr(tf, "float8_e5m2") else unbacked_zeros((3, 2), tf.int8)]
kept.append(tf.Variable(kept[0]))
kept.append(tf.reshape(kept[0], (4, -1)))
assert used() - before < 64 << 10, used() - before
assert [tensor.dtype.name for tensor in kept[:4]] == ["float32", "bfloat16", "bool", "int64"]
assert kept[1].shape == (1 << 20, 1 << 10)
assert not tf.reduce_any(kept[2]).numpy()
"""


def test_twenty_gigabytes_in_next_to_nothing() -> None:
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-2000:]
