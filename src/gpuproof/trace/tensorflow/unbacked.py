"""Tensors of zeros that take no memory, whatever their size: their pages are mapped and never written."""

# pyright: reportAttributeAccessIssue=false

from __future__ import annotations

import mmap
import sys
from math import prod
from typing import Any

import numpy as np
import tensorflow as tf

_SMALL = 1 << 16
"""Bytes up to which a tensor is an ordinary one."""
_NO_RESERVE = {"linux": 0x4000, "darwin": 0x40}.get(sys.platform, 0)
"""MAP_NORESERVE, by which the system refuses no size. Python has the name since 3.13."""


def unbacked_zeros(shape: tuple[int, ...], dtype: Any) -> Any:
    """A tensor of zeros.

    Args:
        shape: of any size.
        dtype: a type of numbers, or `bool`.
    """
    size = prod(shape) * dtype.size
    # DLPack has no bfloat16: its bits are those of another type. Of 8-bit floats, TensorFlow casts no bits.
    raw = tf.uint16 if dtype == tf.bfloat16 else dtype
    if size <= _SMALL or dtype.name.startswith("float8"):
        return tf.constant(np.zeros(shape, dtype.as_numpy_dtype))
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _NO_RESERVE
    array = np.frombuffer(mmap.mmap(-1, size, flags=flags), raw.as_numpy_dtype).reshape(shape)
    tensor = tf.experimental.dlpack.from_dlpack(array.__dlpack__())
    return tensor if raw == dtype else tf.bitcast(tensor, dtype)
