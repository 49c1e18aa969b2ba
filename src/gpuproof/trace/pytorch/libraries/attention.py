"""Kernels of flash-attn and xFormers as PyTorch's own attention: the same shapes, FLOPs and memory."""

# pyright: reportUnknownLambdaType=false

from __future__ import annotations

from functools import partial
from typing import Any

import torch

from gpuproof.trace.imports import ImportActions
from gpuproof.trace.notes import Notes


class LowerTriangularMask:
    """Takes the place of xFormers' mask of the same name."""


def replace_attention_kernels(imports: ImportActions, notes: Notes) -> None:
    """Import functions of this module in place of flash-attn and xFormers.

    Args:
        notes: takes the calls.
    """
    functions: dict[str, Any] = {
        "flash_attn_func": _flash,
        "flash_attn_qkvpacked_func": lambda qkv, *args, **kwargs: _flash(*qkv.unbind(2), *args, **kwargs),
        "flash_attn_kvpacked_func": lambda q, kv, *args, **kwargs: _flash(q, *kv.unbind(2), *args, **kwargs),
        "flash_attn_varlen_func": _flash_varlen,
        "flash_attn_varlen_qkvpacked_func": _flash_varlen_packed,
    }

    def fill_flash(module: Any) -> None:
        module.__version__ = "2.8.3"
        for name, function in functions.items():
            setattr(module, name, _noted(notes, f"flash_attn.{name}", function))

    def fill_padding(module: Any) -> None:
        module.unpad_input = partial(_unpad, notes)
        module.pad_input = lambda rows, indices, batch, length: rows.reshape(batch, length, *rows.shape[1:])
        module.index_first_axis = lambda rows, indices: rows[indices]

    def fill_xformers(module: Any) -> None:
        module.memory_efficient_attention = _noted(
            notes, "xformers.ops.memory_efficient_attention", _memory_efficient
        )
        module.LowerTriangularMask = LowerTriangularMask

    imports.replace("flash_attn", fill_flash)
    imports.replace("flash_attn.flash_attn_interface", fill_flash)
    imports.replace("flash_attn.bert_padding", fill_padding)
    imports.replace("xformers", lambda module: setattr(module, "__version__", "0.0.33"))
    imports.replace("xformers.ops", fill_xformers)


def _noted(notes: Notes, name: str, function: Any) -> Any:
    def call(*args: Any, **kwargs: Any) -> Any:
        notes.add("kernels", f"{name} was traced as PyTorch's scaled_dot_product_attention.")
        return function(*args, **kwargs)

    return call


def _attention(query: Any, key: Any, value: Any, *, causal: bool, scale: Any, mask: Any = None) -> Any:
    """Attention of tensors of (batch, length, heads, size); query heads may be a multiple of the others."""
    groups = query.shape[2] // key.shape[2]
    if groups > 1:
        # The kernels read each head of the keys several times, without a copy of them.
        shape = (*key.shape[:3], groups, key.shape[3])
        key, value = (tensor.unsqueeze(3).expand(shape).flatten(2, 3) for tensor in (key, value))
    query, key, value = (tensor.transpose(1, 2) for tensor in (query, key, value))
    found = torch.nn.functional.scaled_dot_product_attention(
        query, key, value, attn_mask=mask, is_causal=causal, scale=scale
    )
    return found.transpose(1, 2)


def _flash(
    q: Any,
    k: Any,
    v: Any,
    dropout_p: float = 0.0,
    softmax_scale: Any = None,
    causal: bool = False,
    **others: Any,
) -> Any:
    found = _attention(q, k, v, causal=causal and q.shape[1] == k.shape[1], scale=softmax_scale)
    return (found, None, None) if others.get("return_attn_probs") else found


def _flash_varlen(
    q: Any,
    k: Any,
    v: Any,
    cu_seqlens_q: Any,
    cu_seqlens_k: Any,
    max_seqlen_q: int,
    max_seqlen_k: int,
    dropout_p: float = 0.0,
    softmax_scale: Any = None,
    causal: bool = False,
    **others: Any,
) -> Any:
    """Sequences of one tensor of (tokens, heads, size): of the same length if that divides them, else one sequence."""
    count = cu_seqlens_q.numel() - 1
    if count < 1 or q.shape[0] % count or k.shape[0] % count:
        count = 1
    query, key, value = (
        tensor.reshape(count, tensor.shape[0] // count, *tensor.shape[1:]) for tensor in (q, k, v)
    )
    return _flash(query, key, value, dropout_p, softmax_scale, causal, **others).reshape(q.shape)


def _flash_varlen_packed(qkv: Any, cu_seqlens: Any, max_seqlen: int, *args: Any, **kwargs: Any) -> Any:
    query, key, value = qkv.unbind(1)
    return _flash_varlen(query, key, value, cu_seqlens, cu_seqlens, max_seqlen, max_seqlen, *args, **kwargs)


def _unpad(notes: Notes, rows: Any, mask: Any, *_: Any) -> Any:
    """All rows: which of them are padding only the GPU knows."""
    notes.add("dynamic-shape", "flash_attn.bert_padding.unpad_input was taken to keep every row.")
    batch, length = rows.shape[:2]
    indices = torch.arange(batch * length, device=rows.device)
    limits = torch.zeros(batch + 1, dtype=torch.int32, device=rows.device)
    used = torch.full((batch,), length, dtype=torch.int32, device=rows.device)
    return rows.reshape(batch * length, *rows.shape[2:]), indices, limits, length, used


def _memory_efficient(
    query: Any, key: Any, value: Any, attn_bias: Any = None, p: float = 0.0, scale: Any = None, **_: Any
) -> Any:
    causal = attn_bias is LowerTriangularMask or isinstance(attn_bias, LowerTriangularMask)
    mask = attn_bias if isinstance(attn_bias, torch.Tensor) else None
    if query.ndim == 3:
        query, key, value = (tensor.unsqueeze(2) for tensor in (query, key, value))
        return _attention(query, key, value, causal=causal, scale=scale, mask=mask).squeeze(2)
    return _attention(query, key, value, causal=causal, scale=scale, mask=mask)
