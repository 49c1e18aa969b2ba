"""Allocations and frees without repetitions: the peak, and what is in use at the end of each step, stay as they are."""

from __future__ import annotations

import random

import pytest

from gpuproof.trace.document import CATEGORIES, Memory
from gpuproof.trace.pytorch.repetitions import without_repetitions

PARAMETER, ACTIVATION = CATEGORIES.index("parameter"), CATEGORIES.index("activation")


class Script:
    """Allocates and frees by name."""

    def __init__(self) -> None:
        self.blocks: list[tuple[int, int]] = []
        self.events: list[int] = []
        self._names: dict[str, int] = {}

    def allocate(self, name: str, size: int, category: int = ACTIVATION) -> None:
        self.blocks.append((size, category))
        self.events.append(len(self.blocks))
        self._names[name] = len(self.blocks)

    def free(self, *names: str) -> None:
        self.events += [-self._names.pop(name) for name in names]

    def memory(self) -> Memory:
        return Memory(self.blocks, self.events)


def loop(
    script: Script, passes: int, *, shuffled: random.Random | None = None, grows: bool = False
) -> Memory:
    """Parameters, passes whose loss is freed in the next pass, and two steps."""
    layers = range(12)
    for layer in layers:
        script.allocate(f"parameter {layer}", 1000 + layer, PARAMETER)
    for index in range(passes):
        for layer in layers:
            script.allocate(f"activation {layer}", 5000 + layer % 3)
        script.allocate(f"loss {index}", 40 + (index if grows else 0))
        if index:
            script.free(f"loss {index - 1}")
        names = [f"activation {layer}" for layer in layers]
        if shuffled is not None:
            shuffled.shuffle(names)
        script.free(*names)
    for step in range(2):
        script.allocate("state", 70_000 + step)
        script.free(f"loss {passes - 1}" if step == 0 else f"parameter {step}", "state")
        script.events.append(0)
    return script.memory()


def in_use(memory: Memory) -> tuple[int, list[dict[tuple[int, int], int]]]:
    """The peak, and the blocks that are in use at the end of each step."""
    now: set[int] = set()
    peak = 0
    ends: list[dict[tuple[int, int], int]] = []
    for event in memory.events:
        if event > 0:
            assert event not in now
            now.add(event)
        elif event < 0:
            now.remove(-event)
        else:
            blocks = [memory.blocks[block - 1] for block in now]
            ends.append({block: blocks.count(block) for block in blocks})
        peak = max(peak, sum(memory.blocks[block - 1][0] for block in now))
    return peak, ends


@pytest.mark.parametrize("shuffled", [None, random.Random(1)])
def test_passes_that_are_alike_stay_a_few_times(shuffled: random.Random | None) -> None:
    whole = loop(Script(), 100, shuffled=shuffled)
    found = without_repetitions(whole)
    assert len(found.events) < len(whole.events) / 10
    assert in_use(found) == in_use(whole)
    assert sorted(event for event in found.events if event > 0) == list(range(1, len(found.blocks) + 1))


def test_a_few_passes_stay_as_they_are() -> None:
    whole = loop(Script(), 5)
    assert without_repetitions(whole) == whole


def test_passes_that_need_more_each_time_stay() -> None:
    whole = loop(Script(), 50, grows=True)
    assert without_repetitions(whole) == whole


def test_layers_whose_activations_stay_in_use_are_no_repetition() -> None:
    script = Script()
    for layer in range(200):
        script.allocate(f"temporary {layer}", 700)
        script.allocate(f"activation {layer}", 5000)
        script.free(f"temporary {layer}")
    script.free(*(f"activation {layer}" for layer in range(200)))
    script.events.append(0)
    whole = script.memory()
    assert without_repetitions(whole) == whole


def test_steps_themselves_stay() -> None:
    script = Script()
    loop(script, 3)
    for _ in range(30):
        for name in range(20):
            script.allocate(f"micro {name}", 100 + name)
        script.free(*(f"micro {name}" for name in range(20)))
    script.events.append(0)
    whole = script.memory()
    assert without_repetitions(whole) == whole
