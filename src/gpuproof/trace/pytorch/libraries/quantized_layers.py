"""Linear layers of bitsandbytes with weights of 4 or 8 bits: their memory, and the products that they are computed with."""

# pyright: reportPrivateUsage=false, reportPrivateImportUsage=false

from __future__ import annotations

from collections.abc import Iterable
from math import ceil
from typing import Any

import torch

_BLOCK_4BIT, _BLOCK_FACTORS = 64, 256
"""Numbers that share a factor, and factors that share another one with `compress_statistics` (QLoRA's double quantization).

Source: https://arxiv.org/abs/2305.14314, section 3, and the defaults of bitsandbytes.
"""


class QuantizedLinear(torch.nn.Linear):
    """A linear layer whose weights are made larger for each product, and then freed.

    Args:
        in_features: numbers of an input.
        out_features: numbers of an output.
        bias: whether it has one.
        bits: of a weight, 4 or 8.
        compute_dtype: of the products; that of the input if None.
        compress_statistics: whether the factors of blocks are quantized, too.
        device: of the weights.
        dtype: of the bias.
    """

    def __init__(
        self,
        in_features: int,
        out_features: int,
        bias: bool = True,
        *,
        bits: int,
        compute_dtype: Any = None,
        compress_statistics: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        torch.nn.Module.__init__(self)
        self.in_features, self.out_features = in_features, out_features
        self.compute_dtype = compute_dtype
        count = in_features * out_features
        self._per_byte = 8 // bits
        bytes_ = torch.empty(ceil(count / self._per_byte), 1, dtype=torch.uint8, device=device)
        self.weight = torch.nn.Parameter(bytes_, requires_grad=False)
        self.weight.gpuproof_numel = count  # type: ignore[attr-defined]
        for name, size, kind in _factors(count, out_features, bits, compress_statistics):
            self.register_buffer(name, torch.empty(size, dtype=kind, device=device))
        self.bias = None  # type: ignore[assignment]
        if bias:
            values = torch.empty(out_features, dtype=dtype or torch.get_default_dtype(), device=device)
            self.bias = torch.nn.Parameter(values, requires_grad=False)

    def forward(self, input: Any) -> Any:
        """The product, in the compute type; the result has the type of the input."""
        kind = input.dtype
        wanted = self.compute_dtype or kind
        output = _Product.apply(input.to(wanted), self)
        if self.bias is not None:
            output = output + self.bias.to(wanted)
        return output.to(kind)

    def dequantized(self, dtype: Any) -> Any:
        """The weights in another type: (out_features, in_features)."""
        count = self.in_features * self.out_features
        whole = self.weight.detach().expand(-1, self._per_byte).to(dtype)
        return whole.reshape(-1)[:count].view(self.out_features, self.in_features)


class _Product(torch.autograd.Function):
    """A product with weights that are not kept for the backward pass, which makes them larger again."""

    @staticmethod
    def forward(ctx: Any, input: Any, layer: QuantizedLinear) -> Any:
        ctx.layer, ctx.kind = layer, input.dtype
        return torch.nn.functional.linear(input, layer.dequantized(input.dtype))

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Any) -> Any:
        return torch.matmul(grad_outputs[0], ctx.layer.dequantized(ctx.kind)), None


def quantize(
    model: Any, bits: int, skip: Iterable[str], compute_dtype: Any, compress_statistics: bool
) -> int:
    """Replace the linear layers of a model; returns how many.

    Args:
        skip: names of modules, or ends of them, that stay as they are.
    """
    kinds: list[Any] = [torch.nn.Linear]
    conv1d = _conv1d()
    kinds += [conv1d] if conv1d is not None else []
    replaced = 0
    for name, module in list(model.named_modules()):
        if not isinstance(module, tuple(kinds)) or any(
            name == suffix or name.endswith(f".{suffix}") for suffix in skip
        ):
            continue
        weight = module.weight
        inputs, outputs = (
            weight.shape if conv1d is not None and isinstance(module, conv1d) else reversed(weight.shape)
        )
        new = QuantizedLinear(
            int(inputs),
            int(outputs),
            module.bias is not None,
            bits=bits,
            compute_dtype=compute_dtype,
            compress_statistics=compress_statistics,
            device=weight.device,
            dtype=weight.dtype,
        )
        parent, _, last = name.rpartition(".")
        setattr(model.get_submodule(parent), last, new)
        replaced += 1
    return replaced


def _factors(count: int, rows: int, bits: int, compress_statistics: bool) -> list[tuple[str, int, Any]]:
    if bits == 8:
        return [("SCB", rows, torch.float32)]
    blocks = ceil(count / _BLOCK_4BIT)
    if not compress_statistics:
        return [("absmax", blocks, torch.float32)]
    return [("absmax", blocks, torch.uint8), ("nested_absmax", ceil(blocks / _BLOCK_FACTORS), torch.float32)]


def _conv1d() -> Any:
    """The class of GPT-2's linear layers, if transformers is imported."""
    import sys

    utilities = sys.modules.get("transformers.pytorch_utils")
    return getattr(utilities, "Conv1D", None)
