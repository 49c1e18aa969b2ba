"""Functions that an eager loop calls: the graph of each, what it does in memory, and the variables that it changes."""

# pyright: reportPrivateUsage=false, reportAttributeAccessIssue=false

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import tensorflow as tf
from tensorflow.python.eager.polymorphic_function.atomic_function import AtomicFunction

from gpuproof.trace.notes import Notes
from gpuproof.trace.tensorflow.phases import Phases
from gpuproof.trace.tensorflow.program.graph import build_program, changed_arguments
from gpuproof.trace.tensorflow.program.liveness import Step, simulate


@dataclass(frozen=True)
class CalledFunction:
    """What a function does with inputs of certain shapes.

    Args:
        step: its operators and its memory.
        results: shapes and types; None if they depend on values, or are handles.
        by_optimizer: positions of inputs that are variables which an optimizer changes.
        by_hand: of those which others change.
    """

    step: Step
    results: list[tuple[tuple[int, ...], Any]] | None
    by_optimizer: frozenset[int]
    by_hand: frozenset[int]

    @property
    def flops(self) -> float:
        """Floating-point operations of one call."""
        return sum(operator.flops * count for operator, count in self.step.calls)


class CalledFunctions:
    """Remembers functions when they are called, and what was found out about them.

    Args:
        phases: what operators in their graphs are for.
        notes: takes assumptions.
    """

    def __init__(self, phases: Phases, notes: Notes) -> None:
        self._phases = phases
        self._notes = notes
        self._functions: dict[str, Any] = {}
        self._known: dict[Any, CalledFunction] = {}

    def install(self) -> None:
        """Remember functions that are called from now on."""
        call: Callable[..., Any] = AtomicFunction.call_flat

        def call_flat(function: Any, *args: Any) -> Any:
            self._functions[function.name.decode()] = function
            return call(function, *args)

        AtomicFunction.call_flat = call_flat

    def find(self, name: str, inputs: Sequence[Any], phase: str) -> CalledFunction | None:
        """What a function does; None of one that was not seen.

        Args:
            name: by which the eager runtime calls it.
            inputs: eager tensors.
            phase: in which it is called.
        """
        function = self._functions.get(name)
        if function is None:
            return None
        key = (name, phase, tuple(tuple(input_.shape) for input_ in inputs))
        if key not in self._known:
            self._known[key] = self._described(function.graph, inputs, phase)
        return self._known[key]

    def _described(self, graph: Any, inputs: Sequence[Any], phase: str) -> CalledFunction:
        program = build_program(graph, self._phases, self._notes, phase)
        for argument, given in zip(program.arguments, inputs):  # noqa: B905
            program.nodes[argument].shapes[0] = tuple(given.shape)
        step = simulate(program, frozenset(), self._notes)
        changed = changed_arguments(program)
        positions = {argument: position for position, argument in enumerate(program.arguments)}
        by_optimizer, by_hand = (
            frozenset(positions[argument] for argument in arguments if argument in positions)
            for arguments in changed
        )
        return CalledFunction(step, _results(graph), by_optimizer, by_hand)


def _results(graph: Any) -> list[tuple[tuple[int, ...], Any]] | None:
    found: list[tuple[tuple[int, ...], Any]] = []
    for tensor in graph.outputs:
        if not tensor.shape.is_fully_defined() or tensor.dtype in (tf.resource, tf.variant, tf.string):
            return None
        found.append((tuple(tensor.shape.as_list()), tensor.dtype))
    return found
