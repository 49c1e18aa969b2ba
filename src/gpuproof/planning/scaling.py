"""The trace of another batch size or of a sharded model, from traces that were made."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from math import ceil
from typing import TypeVar

from gpuproof.trace.document import CATEGORIES, Memory, Operator, Trace

_Key = TypeVar("_Key")

_GRADIENT, _TEMPORARY = CATEGORIES.index("gradient"), CATEGORIES.index("temporary")
_SHARDED = (CATEGORIES.index("parameter"), _GRADIENT, CATEGORIES.index("optimizer"))
_GATHERED_UNITS = 2
"""FSDP holds the parameters of the unit that computes and of the one that is fetched meanwhile."""


def scaled(first: Trace, second: Trace, batch: int, *, base: int | None = None) -> Trace:
    """The trace of a batch size: sizes, FLOPs and bytes change linearly with it.

    Args:
        first: traced at some batch size.
        second: the same script at twice that size.
        batch: samples on each GPU.
        base: the batch size of `first`; its data loader's if None.

    Raises:
        ValueError: the batch size of `first` is unknown, or one of them is not positive.
    """
    base = base or first.input.samples
    if not base or base < 1 or batch < 1:
        raise ValueError("the batch sizes must be positive, and that of the first trace known")
    factor = batch / base
    seconds = first.input.host_s
    return replace(
        first,
        operators=_scaled_operators(first.operators, second.operators, factor),
        memory=_scaled_memory(first.memory, second.memory, factor),
        input=replace(
            first.input,
            samples=batch,
            host_s=None if seconds is None else seconds * factor,
            steps_per_epoch=_steps(first, factor),
            bytes=round(first.input.bytes * factor),
        ),
    )


def _steps(trace: Trace, factor: float) -> int | None:
    steps = trace.input.steps_per_epoch
    return None if steps is None else max(1, ceil(steps / factor))


def _line(first: float, second: float, factor: float) -> float:
    return max(0.0, first + (second - first) * (factor - 1))


def _scaled_memory(first: Memory, second: Memory, factor: float) -> Memory:
    """Block by block if both traces allocate in the same order; otherwise each category by its total."""
    if first.events == second.events and len(first.blocks) == len(second.blocks):
        pairs = zip(first.blocks, second.blocks, strict=True)
        return replace(first, blocks=[(round(_line(a, b, factor)), kind) for (a, kind), (b, _) in pairs])
    old, new = _totals(first), _totals(second)
    share = {
        kind: _line(old[kind], new.get(kind, old[kind]), factor) / old[kind] for kind in old if old[kind]
    }
    return replace(first, blocks=[(round(size * share.get(kind, 1)), kind) for size, kind in first.blocks])


def _totals(memory: Memory) -> Counter[int]:
    found: Counter[int] = Counter()
    for size, kind in memory.blocks:
        found[kind] += size
    return found


def _scaled_operators(first: list[Operator], second: list[Operator], factor: float) -> list[Operator]:
    """Operator by operator if both traces call the same; otherwise each class by its total."""
    if [_identity(operator) for operator in first] == [_identity(operator) for operator in second]:
        return [_between(a, b, factor) for a, b in zip(first, second, strict=True)]
    shares: dict[str, tuple[float, float]] = {}
    for kind in {operator.kind for operator in first}:
        pairs = [(_sum(first, kind, name), _sum(second, kind, name)) for name in ("flops", "bytes")]
        flops, bytes_ = (_line(a, b, factor) / a if a and b else 1.0 for a, b in pairs)
        shares[kind] = flops, bytes_
    return [
        replace(
            operator,
            flops=operator.flops * shares[operator.kind][0],
            bytes=operator.bytes * shares[operator.kind][1],
        )
        for operator in first
    ]


def _identity(operator: Operator) -> tuple[object, ...]:
    lengths = tuple(map(len, operator.shapes))
    return (
        operator.name,
        operator.kind,
        operator.dtype,
        operator.phase,
        operator.calls,
        lengths,
        len(operator.gemm),
    )


def _sum(operators: list[Operator], kind: str, name: str) -> float:
    return sum(getattr(operator, name) * operator.calls for operator in operators if operator.kind == kind)


def _between(first: Operator, second: Operator, factor: float) -> Operator:
    shapes = tuple(_sizes(a, b, factor) for a, b in zip(first.shapes, second.shapes, strict=True))
    return replace(
        first,
        flops=_line(first.flops, second.flops, factor),
        bytes=_line(first.bytes, second.bytes, factor),
        shapes=shapes,
        gemm=_sizes(first.gemm, second.gemm, factor),
    )


def _sizes(first: tuple[int, ...], second: tuple[int, ...], factor: float) -> tuple[int, ...]:
    return tuple(max(1, round(_line(a, b, factor))) for a, b in zip(first, second, strict=True))


def sharded(trace: Trace, gpus: int) -> Trace:
    """The trace on each of several GPUs among which FSDP shards parameters, gradients and optimizer state.

    Each GPU holds its share. It gathers the parameters of the outermost unit, which stay for the whole step, of the unit that
    computes and of the one that is fetched meanwhile. While gradients are made, it holds those of the outermost unit, and those of one
    other unit twice: as they are made, and as they are sent, in the type in which they are reduced. At the end the outermost unit's are
    sent. Shares of gradients, and the buffer into which `fully_shard` gathers, are allocated on streams of communication, whose memory
    activations cannot use. The optimizer changes its share alone.
    Source: `foreach_all_gather` and `foreach_reduce` in torch/distributed/fsdp/_fully_shard/_fsdp_collectives.py, and
    `_post_backward_hook` in torch/distributed/fsdp/_runtime_utils.py of PyTorch 2.13.

    If the units are not known, two are gathered. A unit is then taken to be a layer: the parameters divided by half of how often
    the shape occurs that makes up most of them (two such matrices in a layer); all parameters if no shape repeats.

    Args:
        trace: of the whole model.
        gpus: among which it is sharded.

    Raises:
        ValueError: the number of GPUs is not positive.
    """
    if gpus < 1:
        raise ValueError("the number of GPUs must be positive")
    factor = 1.0 if trace.sharding is None else trace.sharding.share_factor
    if gpus == 1 and factor == 1:
        return trace
    share = factor / gpus
    blocks = [(ceil(size * share) if kind in _SHARDED else size, kind) for size, kind in trace.memory.blocks]
    operators = [
        replace(operator, flops=operator.flops * share, bytes=operator.bytes * share)
        if operator.phase == "optimizer"
        else operator
        for operator in trace.operators
    ]
    memory = _with_whole_units(trace, Memory(blocks, trace.memory.events))
    return replace(trace, memory=memory, operators=operators)


def _with_whole_units(trace: Trace, shares: Memory) -> Memory:
    """What one GPU allocates, with the whole parameters and gradients that it holds for a time."""
    if trace.sharding is None:
        gathered = min(_GATHERED_UNITS * _unit(trace.memory), _parameter_bytes(trace.memory))
        first = len(shares.blocks) + 1
        return replace(
            shares, blocks=[*shares.blocks, (gathered, _TEMPORARY)], events=[first, *shares.events]
        )
    *inner, outermost = trace.sharding.units
    largest = max(inner, default=0)
    gathered = min(outermost + _GATHERED_UNITS * largest, sum(trace.sharding.units))
    if trace.sharding.keeps_gathered:
        gathered = sum(trace.sharding.units)
    buffer = max(outermost, _GATHERED_UNITS * largest) if trace.sharding.copies_gathered else 0
    sent = 1 + trace.sharding.reduce_factor
    sizes = (buffer, gathered, round(outermost + sent * largest), round(sent * outermost))
    blocks = [*shares.blocks, *((size, _TEMPORARY) for size in sizes)]
    of_buffer, of_parameters, of_gradients, of_last = range(len(shares.blocks) + 1, len(blocks) + 1)
    gradients = {index for index, (_, kind) in enumerate(shares.blocks) if kind == _GRADIENT}
    events = [of_buffer, of_parameters]
    for step in _steps_of(shares.events):
        made = [place for place, event in enumerate(step) if event - 1 in gradients]
        # Gradients that are never freed, but set to zero, are made in the first step alone.
        first, last = (made[0], made[-1] + 1) if made else (0, max(0, len(step) - 1))
        if gradients:
            # The outermost unit's parameters are free again before its gradients are sent.
            end = [-of_gradients, -of_parameters, of_last, -of_last, of_parameters]
            step = [*step[:first], of_gradients, *step[first:last], *end, *step[last:]]  # noqa: PLW2901
        events += step
    return Memory(blocks, events, frozenset({*gradients, of_buffer - 1}))


def _steps_of(events: list[int]) -> Iterator[list[int]]:
    """The events of each step, with the 0 at its end."""
    start = 0
    for place, event in enumerate(events, 1):
        if event == 0:
            yield events[start:place]
            start = place
    if start < len(events):
        yield events[start:]


def _parameter_bytes(memory: Memory) -> int:
    return _totals(memory)[CATEGORIES.index("parameter")]


def _unit(memory: Memory) -> int:
    counts = Counter(size for size, kind in memory.blocks if kind == CATEGORIES.index("parameter"))
    if not counts:
        return 0
    most = max(counts, key=lambda size: size * counts[size])
    return _parameter_bytes(memory) // max(1, counts[most] // 2)
