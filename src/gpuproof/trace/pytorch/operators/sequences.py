"""Packed sequences: their lengths are on the host, so that their shapes are known."""

# pyright: reportPrivateUsage=false, reportAttributeAccessIssue=false

from __future__ import annotations

from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode

from gpuproof.trace.pytorch.fake_gpu import FakeGpu


def pack(fake: FakeTensorMode, padded: Any, lengths: Any, batch_first: bool) -> tuple[Any, Any]:
    """What `pack_padded_sequence` makes: the rows of all sequences, and on the host the number of sequences of each time step.

    Args:
        fake: the mode that all tensors of the GPU belong to.
        padded: of shape (batch, time, ...), or (time, batch, ...).
        lengths: of each sequence.
        batch_first: which of these.

    Raises:
        RuntimeError: as PyTorch does, lengths are on the GPU or longer than the padded sequences.
    """
    if isinstance(lengths, FakeTensor):
        raise RuntimeError("'lengths' argument should be a 1D CPU int64 tensor, but got 1D cuda Long tensor")
    counts: list[int] = [int(length) for length in lengths.tolist()]
    longest = padded.shape[1 if batch_first else 0]
    if not counts or min(counts) < 1 or max(counts) > longest:
        raise RuntimeError(f"Expected lengths from 1 to {longest}, but got {counts}")
    steps = [sum(count > step for count in counts) for step in range(max(counts))]
    with fake:
        rows = torch.empty((sum(counts), *padded.shape[2:]), dtype=padded.dtype)
    return rows, torch.tensor(steps)


def watch_packed_sequences(gpu: FakeGpu) -> None:
    """Let an LSTM over packed sequences on the GPU run as one over sequences of their mean length.

    The host would run each time step by itself; cuDNN computes the rows that there are and keeps no others.
    """
    original: Any = torch.lstm

    def lstm(*args: Any) -> Any:
        is_packed = isinstance(args[1], torch.Tensor)
        if not is_packed or not gpu.is_on_gpu(args[0]):
            return original(*args)
        rows, steps, (hidden, cell), *options = args
        time, sequences = len(steps), int(steps[0])
        mean = -(-len(rows) // time)
        missing = time * mean - len(rows)
        filled = torch.nn.functional.pad(rows, (0, 0, 0, missing)) if missing else rows
        states = tuple(state[:, :mean].contiguous() for state in (hidden, cell))
        output, *last = original(filled.view(time, mean, -1), states, *options, False)
        output = output.reshape(time * mean, -1)[: len(rows)]
        return (output, *(torch.nn.functional.pad(state, (0, 0, 0, sequences - mean)) for state in last))

    gpu.answer(original, lstm)
