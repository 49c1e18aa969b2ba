"""What the kernels of an operator compute and move, where that is more than its shapes say.

cuDNN and PyTorch compute some operators with kernels that use no tensor cores, and copy tensors into the layout that a kernel needs.
The constants are properties of that software, the same for all GPUs; they were chosen by measured steps of image models
(`bench/plan/fit.py`), and rounded.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from gpuproof.trace.document import (
    CHANNELS_LAST,
    CONTIGUOUS,
    CONV,
    DEPTHWISE_CONV,
    GROUPED_CONV,
    MIXED,
    STRIDED,
    Operator,
)

TENSOR, VECTOR = "tensor", "vector"
"""Units that compute a product: tensor cores, or those that compute single FP32 numbers."""
_GROUP_WIDTHS, _GROUPS = (4, 8, 16, 32), 8
"""Channels of a group, and of how many groups a multiple, for which tensor cores compute grouped convolutions with channels last."""
_DIRECT_BACKWARD = 12.0
"""How much longer other grouped convolutions take backwards than forwards, for each operation, with channels last."""
_INPUT = {"aten.convolution": 0, "aten.convolution_backward": 1}
"""Where a convolution's input is among its tensors; the filters are next."""
_BACKWARD_PASSES = 2.3
"""How much longer batch normalization takes backwards, with a block for each channel."""
_DEPTHWISE_SHARE = 0.35
"""Share of the FP32 peak that depthwise convolutions reach."""


@dataclass(frozen=True)
class Work:
    """Of one call of an operator.

    Args:
        flops: floating-point operations, in those of the unit's peak.
        unit: `TENSOR` or `VECTOR`, on which they are computed.
        bytes: that its own kernels read and write.
        copied: bytes that kernels read and write which copy tensors into another layout before or after.
        by_channel: numbers that kernels read, one block for each channel, when a norm is trained.
        channels: of these kernels.
    """

    flops: float
    unit: str
    bytes: float
    copied: float = 0.0
    by_channel: float = 0.0
    channels: int = 1


def kernel_work(operator: Operator, *, half: bool, tensor_cores: bool) -> Work:
    """What the kernels of an operator do.

    Args:
        operator: of a trace of PyTorch.
        half: it is computed in 16 bits.
        tensor_cores: of its precision are on the GPU.
    """
    if operator.kind == DEPTHWISE_CONV:
        copied = operator.bytes if operator.layout in (STRIDED, MIXED) else 0.0
        return Work(operator.flops / _DEPTHWISE_SHARE, VECTOR, operator.bytes, copied)
    if operator.kind == GROUPED_CONV:
        return _grouped(operator, half=half, tensor_cores=tensor_cores)
    if operator.kind == CONV:
        copied = _copied_for_tensor_cores(operator) if tensor_cores else 0.0
        return Work(operator.flops, TENSOR, operator.bytes, copied)
    if "batch_norm" in operator.name and operator.layout == CONTIGUOUS and operator.shapes:
        passes = _BACKWARD_PASSES if operator.phase == "backward" else 1.0
        shape = operator.shapes[0]
        channels = shape[1] if len(shape) > 1 else 1
        return Work(operator.flops, TENSOR, operator.bytes, 0.0, passes * prod(shape), channels)
    copied = 0.0
    if "group_norm" in operator.name and operator.layout == CHANNELS_LAST:
        copied = operator.bytes  # its kernels take contiguous tensors only
    return Work(operator.flops, TENSOR, operator.bytes, copied)


def _grouped(operator: Operator, *, half: bool, tensor_cores: bool) -> Work:
    copied = _copied_for_tensor_cores(operator) if tensor_cores else 0.0
    groups, filters = operator.gemm[0] if operator.gemm else 1, _filters(operator)
    flops = operator.flops
    if half and operator.layout != CONTIGUOUS and filters:
        width = filters[1]
        if width in _GROUP_WIDTHS and filters[0] == groups * width and groups % _GROUPS == 0:
            return Work(flops, TENSOR, operator.bytes, copied)
        flops *= _DIRECT_BACKWARD if operator.phase == "backward" else 1.0
    return Work(flops, VECTOR, operator.bytes, copied)


def _copied_for_tensor_cores(operator: Operator) -> float:
    """Their kernels have channels last, so that tensors in another order are copied, except by a plain product."""
    return 0.0 if operator.layout == CHANNELS_LAST or _is_product(operator) else operator.bytes


def _is_product(operator: Operator) -> bool:
    """Whether windows of one pixel touch each other."""
    filters, index = _filters(operator), _INPUT.get(operator.name)
    if not filters or index is None or len(operator.gemm) != 4 or prod(filters[2:]) != 1:
        return False
    images = operator.shapes[index]
    return operator.gemm[1] == images[0] * prod(images[2:])


def _filters(operator: Operator) -> tuple[int, ...]:
    """The shape of a convolution's filters: channels of the output, channels of a group of the input, window; empty if unknown."""
    index = _INPUT.get(operator.name, len(operator.shapes)) + 1
    return operator.shapes[index] if len(operator.shapes) > index else ()
