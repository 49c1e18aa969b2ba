"""Leaves out repetitions among allocations and frees: what a loop before the training does a hundred times needs the memory of a few passes.

A simulated allocator takes minutes for a hundred thousand events, which change nothing after the first passes.
"""

from __future__ import annotations

from itertools import accumulate

from gpuproof.trace.document import Memory

_WINDOW = 16
"""Events by which a place is recognised."""
_KEPT = 5
"""Passes of a loop that stay: the memory that an allocator reserves varies by 1 % after so many, as it does with all of them."""


def without_repetitions(memory: Memory) -> Memory:
    """The same memory with at most five passes of each loop before the end of the first step.

    A pass is left out if it allocates and frees the same sizes in the same order as the one before, and leaves in use what was so before it.
    """
    events = memory.events
    end = events.index(0) if 0 in events else len(events)
    before = _with_sorted_frees(events[:end])
    spans = _repetitions(before, memory.blocks)
    if not spans:
        return memory
    return _without(Memory(memory.blocks, before + events[end:]), spans) or memory


def _with_sorted_frees(events: list[int]) -> list[int]:
    """The events with each run of frees in one order: that of a cache, such as autocast's, is arbitrary."""
    found: list[int] = []
    frees: list[int] = []
    for event in events:
        if event < 0:
            frees.append(event)
            continue
        found += sorted(frees, reverse=True)
        frees.clear()
        found.append(event)
    return found + sorted(frees, reverse=True)


def _repetitions(events: list[int], blocks: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """The first and the last event, which is not included, of passes that may be left out."""
    codes = _relative(events, blocks)
    in_use = list(
        accumulate((blocks[abs(event) - 1][0] * (1 if event > 0 else -1) for event in events), initial=0)
    )
    count = list(accumulate((1 if event > 0 else -1 for event in events), initial=0))
    found: list[tuple[int, int]] = []
    seen: dict[tuple[object, ...], int] = {}
    different = (0, 0)
    place = _WINDOW
    while place <= len(events):
        window = tuple(codes[place - _WINDOW : place])
        last = seen.get(window)
        seen[window] = place
        length = 0 if last is None else place - last
        is_same = last is not None and (in_use[last], count[last]) == (in_use[place], count[place])
        if is_same and (length != different[0] or place > different[1]):
            until = place
            while until < len(events) and codes[until] == codes[until - length]:
                until += 1
            first, stop = place + (_KEPT - 1) * length, place + (until - place) // length * length
            if stop > first:
                found.append((first, stop))
                seen.clear()
                place = stop
            else:
                different = length, until
        place += 1
    return found


def _relative(events: list[int], blocks: list[tuple[int, int]]) -> list[object]:
    """Each allocation as its block, and each free as the number of allocations since that of its block."""
    order: dict[int, int] = {}
    codes: list[object] = []
    for event in events:
        if event > 0:
            order[event] = len(order)
            codes.append(blocks[event - 1])
        else:
            codes.append(len(order) - order[-event])
    return codes


def _without(memory: Memory, spans: list[tuple[int, int]]) -> Memory | None:
    """The memory without these events; None if what is in use after them is not what was so before."""
    events: list[int] = []
    blocks: list[tuple[int, int]] = []
    new: dict[int, int] = {}
    in_use: set[int] = set()
    left = iter([*spans, (len(memory.events), len(memory.events))])
    first, stop = next(left)
    for place, event in enumerate(memory.events):
        if place >= stop:
            first, stop = next(left)
        if first <= place < stop:
            if event > 0:
                # The block of the pass that is now the last one.
                new[event] = new.get(memory.events[place - (stop - first)], 0)
        elif event > 0:
            blocks.append(memory.blocks[event - 1])
            new[event] = len(blocks)
            in_use.add(len(blocks))
            events.append(len(blocks))
        elif event == 0:
            events.append(0)
        else:
            block = new.get(-event, 0)
            if block not in in_use:
                return None
            in_use.remove(block)
            events.append(-block)
    return Memory(blocks, events)
