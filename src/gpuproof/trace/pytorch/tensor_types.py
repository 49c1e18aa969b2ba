"""`torch.cuda.FloatTensor` and its like: types, and functions that make tensors on the GPU."""

# pyright: reportPrivateUsage=false, reportPrivateImportUsage=false

from __future__ import annotations

from typing import Any

import torch

from gpuproof.trace.pytorch.fake_gpu import GPU, FakeGpu

_TYPES = {
    "FloatTensor": torch.float32,
    "DoubleTensor": torch.float64,
    "HalfTensor": torch.float16,
    "BFloat16Tensor": torch.bfloat16,
    "ByteTensor": torch.uint8,
    "CharTensor": torch.int8,
    "ShortTensor": torch.int16,
    "IntTensor": torch.int32,
    "LongTensor": torch.int64,
    "BoolTensor": torch.bool,
}
"""Source: https://docs.pytorch.org/docs/stable/tensors.html#data-types"""


def replace_tensor_types(gpu: FakeGpu) -> None:
    """Let the types of tensors on the GPU work without one, also as the default type.

    Args:
        gpu: on which the tensors are.
    """
    types = {name: _type(name, dtype, gpu) for name, dtype in _TYPES.items()}
    for name, made in types.items():
        setattr(torch.cuda, name, made)
    set_default_type = torch.set_default_tensor_type

    def set_default_tensor_type(kind: Any) -> None:
        name = kind if isinstance(kind, str) else f"{kind.__module__}.{kind.__name__}"
        gpu.default_on_gpu = name.startswith("torch.cuda.")
        set_default_type(name.replace("torch.cuda.", "torch."))

    torch.set_default_tensor_type = set_default_tensor_type


class _TensorType(type):
    dtype: torch.dtype
    gpu: FakeGpu
    is_cuda = True

    def __call__(cls, *arguments: Any, **_: Any) -> Any:
        """A tensor of numbers, of an array, or without values of a shape."""
        with cls.gpu:
            if not arguments or all(isinstance(argument, int) for argument in arguments):
                return torch.empty(arguments or (0,), dtype=cls.dtype, device=GPU)
            (first,) = arguments
            if isinstance(first, torch.Size):
                return torch.empty(first, dtype=cls.dtype, device=GPU)
            return torch.as_tensor(first, dtype=cls.dtype, device=GPU)

    def __instancecheck__(cls, instance: Any) -> bool:
        return cls.gpu.is_on_gpu(instance) and instance.dtype == cls.dtype


def _type(name: str, dtype: torch.dtype, gpu: FakeGpu) -> Any:
    return _TensorType(name, (), {"__module__": "torch.cuda", "dtype": dtype, "gpu": gpu})
