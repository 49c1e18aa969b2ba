"""The class, the floating-point operations and the memory traffic of an operator."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import torch

from gpuproof.trace.document import (
    ATTENTION,
    BMM,
    CHANNELS_LAST,
    COLLECTIVE,
    CONTIGUOUS,
    CONV,
    DEPTHWISE_CONV,
    ELEMENTWISE,
    GEMM,
    GROUPED_CONV,
    INDEX,
    MIXED,
    NORM,
    OPTIMIZER,
    OTHER,
    POOL,
    REDUCTION,
    SOFTMAX,
    STRIDED,
)

_KINDS = {
    GEMM: ("mm", "addmm", "addmv", "mv", "linear", "_scaled_mm", "dot"),
    BMM: ("bmm", "baddbmm"),
    SOFTMAX: ("_softmax", "_log_softmax", "_softmax_backward_data", "_log_softmax_backward_data"),
    NORM: (
        *("native_batch_norm", "_native_batch_norm_legit", "cudnn_batch_norm", "native_batch_norm_backward"),
        *(
            "native_layer_norm",
            "native_layer_norm_backward",
            "native_group_norm",
            "native_group_norm_backward",
        ),
        *("_fused_rms_norm", "_fused_rms_norm_backward", "batch_norm_backward", "_batch_norm_with_update"),
    ),
    POOL: (
        *("max_pool2d_with_indices", "max_pool2d_with_indices_backward", "avg_pool2d", "avg_pool2d_backward"),
        *("_adaptive_avg_pool2d", "_adaptive_avg_pool2d_backward", "adaptive_max_pool2d", "avg_pool3d"),
        *("max_pool3d_with_indices", "max_pool3d_with_indices_backward", "_adaptive_avg_pool3d"),
        *(
            "upsample_nearest2d",
            "upsample_nearest2d_backward",
            "upsample_bilinear2d",
            "upsample_bilinear2d_backward",
        ),
    ),
    INDEX: (
        *(
            "embedding",
            "embedding_dense_backward",
            "_embedding_bag",
            "_embedding_bag_backward",
            "index",
            "index_put",
        ),
        *("index_put_", "_index_put_impl_", "index_select", "index_add", "index_add_", "gather", "scatter"),
        *(
            "scatter_",
            "scatter_add",
            "scatter_add_",
            "gather_backward",
            "nll_loss_forward",
            "nll_loss_backward",
        ),
        *(
            "topk",
            "sort",
            "nonzero",
            "unique2",
            "_unique2",
            "masked_select",
            "select_backward",
            "slice_backward",
        ),
    ),
    REDUCTION: (
        *(
            "sum",
            "mean",
            "var_mean",
            "var",
            "std",
            "amax",
            "amin",
            "max",
            "min",
            "argmax",
            "argmin",
            "norm",
            "cumsum",
        ),
        *("linalg_vector_norm", "_foreach_norm", "prod", "any", "all", "logsumexp"),
    ),
}
_KIND_OF = {name: kind for kind, names in _KINDS.items() for name in names}
_NO_KERNEL = frozenset(
    {
        *(
            "empty",
            "empty_like",
            "empty_strided",
            "new_empty",
            "new_empty_strided",
            "detach",
            "alias",
            "set_",
        ),
        # Views by another name: the result of the first is not marked as one, the others change their argument.
        *(
            "_unsafe_view",
            "as_strided_",
            "squeeze_",
            "unsqueeze_",
            "transpose_",
            "t_",
            "swapaxes_",
            "swapdims_",
        ),
        *("unsafe_split", "unsafe_split_with_sizes", "unsafe_chunk"),
        *("is_same_size", "record_stream", "resize_", "_local_scalar_dense", "lift_fresh", "is_pinned"),
    }
)
_RECURRENT = ("mkldnn_rnn_layer", "mkldnn_rnn_layer_backward")
_CAUSAL, _CAUSAL_BACKWARD = 4, 7
"""Where the arguments of attention kernels say that the mask is causal."""
_PARTIAL_GRADIENTS = 4 << 20
"""Bytes of the parts of a filter's gradient: 2 to 12 MiB of measured convolutions."""
_BACKWARD_OF_ATTENTION = 2.5
"""Five products of matrices instead of two."""


def kind_of(name: str, phase: str, arguments: tuple[Any, ...]) -> str:
    """The class of an operator.

    Args:
        name: without `aten.` and overload, such as `mm`.
        phase: of the step.
        arguments: what it is called with.
    """
    if "scaled_dot_product" in name or "_attention_" in name:
        return ATTENTION
    if name in ("convolution", "convolution_backward"):
        return _kind_of_convolution(name, arguments)
    if name.startswith(
        ("all_reduce", "allreduce", "all_gather", "allgather", "reduce_scatter", "broadcast_")
    ):
        return COLLECTIVE
    if (kind := _KIND_OF.get(name)) is not None:
        return kind
    if phase == "optimizer":
        return OPTIMIZER
    if "_rnn" in name or "lstm" in name or "gru" in name:
        return GEMM
    return OTHER if name in _NO_KERNEL else ELEMENTWISE


def calls_cublas(name: str) -> bool:
    """Whether an operator is a product that cuBLAS computes."""
    return _KIND_OF.get(name) in (GEMM, BMM)


def kernels_of(name: str, is_view: bool, tensors: int) -> int:
    """How many kernels a call launches.

    Args:
        is_view: whether it only returns another view of its first argument.
        tensors: how many tensors it writes; `_foreach` operators take about sixty of them per launch.
    """
    if is_view or name in _NO_KERNEL:
        return 0
    if name.startswith(("_foreach", "_fused")):
        return max(1, -(-tensors // 60))
    return 2 if name in ("convolution_backward", *_RECURRENT) else 1


def _kind_of_convolution(name: str, arguments: tuple[Any, ...]) -> str:
    backward = name == "convolution_backward"
    weight, groups = arguments[2 if backward else 1], arguments[9 if backward else 8]
    if groups == 1:
        return CONV
    return DEPTHWISE_CONV if weight.shape[1] == 1 else GROUPED_CONV


def gemm_of(name: str, arguments: tuple[Any, ...], output: Any) -> tuple[int, ...]:
    """The product (batch, m, n, k) that an operator computes; empty if it computes none.

    A convolution is the product of its filters with the windows of its input.
    """
    if name in ("mm", "_scaled_mm"):
        return _product(arguments[0], arguments[1])
    if name == "addmm":
        return _product(arguments[1], arguments[2])
    if name in ("bmm", "baddbmm"):
        left, right = arguments[-2:] if name == "bmm" else arguments[1:3]
        return (left.shape[0], left.shape[1], right.shape[2], left.shape[2])
    if name == "linear":
        size, weight = arguments[0], arguments[1]
        return (1, prod(size.shape[:-1]), weight.shape[0], weight.shape[1])
    if name in _RECURRENT:
        # Input and hidden state are multiplied in every time step; the host's operator stands for that of cuDNN.
        source, weights, state = arguments[0], arguments[1], arguments[2]
        return (1, source.shape[0] * source.shape[1], weights.shape[0], weights.shape[1] + state.shape[1])
    if name in ("convolution", "convolution_backward"):
        backward = name == "convolution_backward"
        out = arguments[0] if backward else output
        weight, groups = arguments[2 if backward else 1], arguments[9 if backward else 8]
        transposed = arguments[7 if backward else 6]
        source = arguments[1 if backward else 0] if transposed else out
        windows = source.shape[0] * prod(source.shape[2:])
        return (groups, windows, weight.shape[0] // groups, prod(weight.shape[1:]))
    return ()


def convolution_workspaces(name: str, arguments: tuple[Any, ...], output: Any, layout: str) -> dict[int, int]:
    """Bytes that cuDNN takes while it computes a result of a convolution, by the id of that result.

    Its kernels have channels last, so that it copies input, filters and output of another layout, except where windows
    of one pixel touch each other, which is a plain product. Gradients of filters are computed in parts.
    Measured on an H200: bench/results/gpu_session-H200.json.
    """
    backward = name == "convolution_backward"
    if name not in ("convolution", "convolution_backward"):
        return {}
    source, weight, strides = (arguments[index] for index in ((1, 2, 4) if backward else (0, 1, 3)))
    is_product = prod(weight.shape[2:]) == 1 and set(strides) == {1}
    if layout == CHANNELS_LAST or is_product or _kind_of_convolution(name, arguments) == DEPTHWISE_CONV:
        return {}
    result = arguments[0] if backward else output
    size = sum(tensor.numel() * tensor.element_size() for tensor in (source, weight, result))
    if backward:
        return {id(output[0]): size, id(output[1]): size + _PARTIAL_GRADIENTS}
    return {id(output): size}


def flops_of(name: str, arguments: tuple[Any, ...], gemm: tuple[int, ...], largest: int) -> float:
    """Floating-point operations of a call; a multiplication and an addition are two.

    Args:
        gemm: what `gemm_of` says.
        largest: numbers in the largest tensor that it reads or writes: an operator without product does one
            operation with each.
    """
    if gemm:
        passes = sum(arguments[10][:2]) if name == "convolution_backward" else 1
        passes = 2 if name == "mkldnn_rnn_layer_backward" else passes
        return 2.0 * prod(gemm) * passes
    if "scaled_dot_product" in name or "_attention_" in name:
        backward = "backward" in name
        query, key, value = arguments[1:4] if backward else arguments[:3]
        batch, length = prod(query.shape[:-2]), query.shape[-2]
        forward = 2.0 * batch * length * key.shape[-2] * (query.shape[-1] + value.shape[-1])
        # The kernels skip what a causal mask hides, which is half.
        causal = arguments[_CAUSAL_BACKWARD if backward else _CAUSAL :][:1] == (True,)
        return forward * (_BACKWARD_OF_ATTENTION if backward else 1.0) * (0.5 if causal else 1.0)
    return 0.0 if name in _NO_KERNEL else float(largest)


def layout_of(tensors: Sequence[Any]) -> str:
    """How the large tensors among these lie in memory: those that have at least half as many numbers as the largest.

    Args:
        tensors: that an operator reads and writes.
    """
    largest = max((tensor.numel() for tensor in tensors), default=0)
    found = {_layout(tensor) for tensor in tensors if 2 * tensor.numel() >= largest} - {None}
    return MIXED if len(found) > 1 else next(iter(found), None) or CONTIGUOUS


def _layout(tensor: Any) -> str | None:
    """None if it is in the order of both, such as the filters of a convolution with windows of one pixel."""
    form = {4: torch.channels_last, 5: torch.channels_last_3d}.get(tensor.ndim)
    is_channels_last = form is not None and tensor.is_contiguous(memory_format=form)
    if tensor.is_contiguous():
        return None if is_channels_last else CONTIGUOUS
    return CHANNELS_LAST if is_channels_last else STRIDED


def _product(left: Any, right: Any) -> tuple[int, ...]:
    return (1, left.shape[0], right.shape[1], left.shape[1])
