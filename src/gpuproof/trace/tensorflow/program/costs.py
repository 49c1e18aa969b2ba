"""Class, products, FLOPs and traffic of TensorFlow's operators, from shapes and attributes."""

from __future__ import annotations

from math import prod
from typing import Any

from gpuproof.trace import document
from gpuproof.trace.document import Operator
from gpuproof.trace.tensorflow.program.graph import Node, writes_variable
from gpuproof.trace.tensorflow.program.operator_kinds import ALIASES, NO_KERNEL, kind_of

LARGEST = "The result of {} is assumed to be as large as it can be."
"""The assumption that goes with `largest_shape`."""

Typed = tuple[tuple[int, ...], str]
"""Shape and type of a tensor."""

_TWO_OPERANDS = 2
_HOST_NUMBERS = 16
"""Integers up to so many in a tensor are in the host's memory: shapes, axes, counters."""
_RNN_BACKWARD = 2.0
_CUDNN_GATES = 5
"""cuDNN keeps the four gates and the cell state of an LSTM in every time step for the backward pass."""
_SHAPES = 4
"""Of so many inputs, the shapes are kept."""


def is_host(shape: tuple[int, ...], dtype: str) -> bool:
    """Whether TensorFlow keeps a tensor in the host's memory: small ones of integers, strings, handles."""
    if dtype in ("resource", "variant", "string"):
        return True
    return dtype.startswith(("int", "uint", "bool")) and prod(shape) <= _HOST_NUMBERS


def operator_of(node: Node, inputs: list[Typed], outputs: list[Typed]) -> Operator | None:
    """One call of an operator; None if it runs on the host.

    Args:
        node: the operator.
        inputs: what it reads.
        outputs: what it writes.
    """
    shapes, results = [shape for shape, _ in inputs], [shape for shape, _ in outputs]
    kernels = kernels_of(node, results)
    if kernels == 0:
        return None
    gemm = gemm_of(node, shapes, results)
    class_ = kind(node, shapes)
    dtypes = [dtype for _, dtype in (*inputs, *outputs) if "float" in dtype]
    return Operator(
        node.type,
        class_,
        dtypes[0] if dtypes else (node.dtypes or ["int32"])[0],
        node.phase,
        flops_of(node, gemm, shapes, results),
        bytes_of(node, class_, inputs, outputs),
        kernels,
        tuple(shape for shape, dtype in inputs if not is_host(shape, dtype))[:_SHAPES],
        1,
        gemm,
    )


def largest_shape(
    operator: str, shape: tuple[int | None, ...] | None, dtype: str, inputs: list[Typed]
) -> tuple[int, ...]:
    """An upper limit of a shape that depends on values: as many numbers as the largest input has.

    Args:
        operator: its type.
        shape: what is known of the result; None if its rank is not.
        dtype: of the result.
        inputs: of the operator.
    """
    if is_reserved_by_cudnn(operator):
        (source, _), (state, _) = inputs[:2]
        kept = dtype != "int8"  # which says how cuDNN was configured, in the host's memory
        return (source[0], source[1], _CUDNN_GATES * state[-1]) if kept else ()
    given = [shape for shape, dtype in inputs if not is_host(shape, dtype)]
    if shape is None:
        return max(given, key=prod, default=())
    numbers = max((prod(shape) for shape in given), default=1)
    known = prod(size for size in shape if size is not None)
    rest = -(-numbers // max(1, known))
    sizes: list[int] = []
    for size in shape:
        sizes.append(rest if size is None else size)
        rest = 1 if size is None else rest
    return tuple(sizes)


def is_reserved_by_cudnn(operator: str) -> bool:
    """Whether a result whose shape is not known is what cuDNN keeps of an RNN for the backward pass."""
    return operator.startswith("CudnnRNN")


def kernels_of(node: Node, outputs: list[tuple[int, ...]]) -> int:
    """How many kernels one call launches."""
    if node.type in NO_KERNEL or node.type in ALIASES:
        return 0
    if outputs and all(is_host(shape, dtype) for shape, dtype in zip(outputs, node.dtypes)):  # noqa: B905
        return 0
    return 2 if node.type.startswith("CudnnRNN") else 1


def kind(node: Node, inputs: list[tuple[int, ...]]) -> str:
    """One of `document.CLASSES`."""
    found = kind_of(node.type)
    if found == document.CONV and node.type.startswith("CudnnRNN"):
        return document.GEMM
    if found == document.CONV:
        convolution = _convolution(node, inputs, [])
        return document.GROUPED_CONV if convolution and convolution[0] > 1 else found
    if node.type == "Einsum":
        gemm = _einsum(node.operation.get_attr("equation").decode(), inputs)
        return document.GEMM if gemm[:1] == (1,) else document.BMM
    if node.phase == "optimizer" and found in (document.ELEMENTWISE, document.REDUCTION):
        return document.OPTIMIZER
    return found


def gemm_of(node: Node, inputs: list[tuple[int, ...]], outputs: list[tuple[int, ...]]) -> tuple[int, ...]:
    """The product (batch, m, n, k) that an operator computes; empty if it computes none."""
    type_ = node.type
    if type_ == "MatMul":
        left, right = inputs[0], inputs[1]
        m, k = reversed(left) if node.operation.get_attr("transpose_a") else left
        n = right[0] if node.operation.get_attr("transpose_b") else right[1]
        return (1, m, n, k)
    if type_.startswith("BatchMatMul"):
        left, out = inputs[0], outputs[0]
        k = left[-2] if node.operation.get_attr("adj_x") else left[-1]
        return (prod(out[:-2]), out[-2], out[-1], k)
    if type_ == "Einsum":
        return _einsum(node.operation.get_attr("equation").decode(), inputs)
    if type_.startswith("CudnnRNN"):
        source, state, weights = inputs[0], inputs[1], inputs[3]
        inner = source[-1] + state[-1]
        return (1, source[0] * source[1], max(1, prod(weights) // inner), inner)
    if "Conv" in type_:
        return _convolution(node, inputs, outputs)
    return ()


def flops_of(
    node: Node, gemm: tuple[int, ...], inputs: list[tuple[int, ...]], outputs: list[tuple[int, ...]]
) -> float:
    """Floating-point operations of one call; an operator without product does one with each number of its largest tensor."""
    if gemm:
        backward = node.type.startswith("CudnnRNNBackprop")
        return 2.0 * prod(gemm) * (_RNN_BACKWARD if backward else 1.0)
    if node.type == "Einsum":
        return 0.0
    return float(max((prod(shape) for shape in (*inputs, *outputs)), default=0))


def bytes_of(
    node: Node,
    kind_: str,
    inputs: list[tuple[tuple[int, ...], str]],
    outputs: list[tuple[tuple[int, ...], str]],
) -> float:
    """Bytes that one call reads and writes, each tensor once."""
    read = [tensor_bytes(*input_) for input_ in inputs]
    written = [tensor_bytes(*output) for output in outputs]
    if writes_variable(node.type):
        # The variable itself is a handle: it is written, and read unless it is only assigned.
        return float(sum(read) + sum(read[-1:]) * (1 if node.type == "AssignVariableOp" else 2))
    if kind_ == document.INDEX and written and len(read) > 1:
        read.remove(max(read))  # only some rows are read
        read += written
    return float(sum(read) + sum(written))


def tensor_bytes(shape: tuple[int, ...], dtype: str) -> int:
    """Bytes of a tensor; 0 of a handle."""
    return prod(shape) * _WIDTHS.get(dtype, 4)


_WIDTHS = {
    "float64": 8,
    "int64": 8,
    "uint64": 8,
    "complex64": 8,
    "complex128": 16,
    "float16": 2,
    "bfloat16": 2,
    "int16": 2,
    "uint16": 2,
    "bool": 1,
    "int8": 1,
    "uint8": 1,
    "float8_e4m3fn": 1,
    "float8_e5m2": 1,
    "resource": 0,
    "variant": 0,
    "string": 0,
}


def _convolution(
    node: Node, inputs: list[tuple[int, ...]], outputs: list[tuple[int, ...]]
) -> tuple[int, ...]:
    """Of groups, the product of the filters with the windows of the input."""
    type_ = node.type
    if "BackpropInput" in type_:
        filters, result = inputs[1], inputs[2]
        source = outputs[0] if outputs else ()
    elif "BackpropFilter" in type_:
        source, result = inputs[0], inputs[2]
        filters = outputs[0] if outputs else ()
    else:
        source, filters = inputs[0], inputs[1]
        result = outputs[0] if outputs else ()
    if not filters or len(filters) < 3:
        return ()
    if type_.startswith("Depthwise"):
        channels = filters[-2] * filters[-1]
        return (filters[-2], prod(result) // max(1, channels), filters[-1], prod(filters[:-2]))
    out = filters[-1]
    first = _attribute(node.operation, "data_format", b"NHWC").decode().startswith("NC")
    channels = (source[1] if first else source[-1]) if source else filters[-2]
    groups = max(1, channels // filters[-2])
    return (groups, prod(result) // max(1, out), out // groups, prod(filters[:-1]))


def _attribute(operation: Any, name: str, default: Any) -> Any:
    try:
        return operation.get_attr(name)
    except ValueError:
        return default


def _einsum(equation: str, inputs: list[tuple[int, ...]]) -> tuple[int, ...]:
    """Of two operands; labels of both and of the result are the batch, those of both alone are summed."""
    given, _, result = equation.partition("->")
    operands = given.split(",")
    if len(operands) != len(inputs) or len(inputs) != _TWO_OPERANDS or "." in equation:
        return ()
    sizes = {
        label: size
        for labels, shape in zip(operands, inputs)  # noqa: B905
        for label, size in zip(labels, shape)  # noqa: B905
    }
    left, right = set(operands[0]), set(operands[1])
    both = left & right

    def size(labels: set[str]) -> int:
        return prod(sizes[label] for label in labels)

    return (
        size(both & set(result)),
        size((left - right) & set(result)),
        size((right - left) & set(result)),
        size(both - set(result)),
    )
