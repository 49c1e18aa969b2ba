"""What a step was found to do, from the graphs of the functions that it calls."""

# pyright: reportPrivateUsage=false, reportAttributeAccessIssue=false

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import tensorflow as tf

from gpuproof.trace.document import CATEGORIES, Memory, Operator
from gpuproof.trace.notes import Notes
from gpuproof.trace.tensorflow.program.graph import Program, changed_arguments
from gpuproof.trace.tensorflow.program.liveness import Step, simulate


@dataclass(frozen=True)
class Recording:
    """The steps of a script.

    Args:
        steps: how many there are.
        calls: operators of the last step, each with the number of its calls.
        memory: of all steps.
        host_operators: of one step.
        input_bytes: of the data of one step.
        parameters: numbers in the weights that the step uses.
        trainable: of those that it changes.
        model_bytes: of weights.
        gradient_bytes: of weights that it changes.
        compiled: with XLA.
    """

    steps: int
    calls: list[tuple[Operator, int]]
    memory: Memory
    host_operators: int
    input_bytes: int
    parameters: int
    trainable: int
    model_bytes: int
    gradient_bytes: int
    compiled: bool


def recording_of(cycle: Sequence[RecordedFunction], count: int, notes: Notes) -> Recording:
    """Steps that consist of calls of functions.

    Args:
        cycle: the functions that a step calls, in order.
        count: how many steps there are.
        notes: takes assumptions.
    """
    by_function = {id(recorded): simulate(recorded.program, recorded.data, notes) for recorded in cycle}
    steps = [by_function[id(recorded)] for recorded in cycle]
    variables: dict[int, tuple[int, str]] = {}
    trained: set[int] = set()
    for recorded in cycle:
        variables.update(recorded.variables)
        trained |= recorded.trained
    sizes = {key: size for key, (size, category) in variables.items() if category == "parameter"}
    unique = list({id(recorded): recorded for recorded in cycle}.values())
    return Recording(
        steps=count,
        calls=[call for step in steps for call in step.calls],
        memory=_memory(list(variables.values()), steps, count),
        host_operators=sum(step.host_operators for step in steps),
        input_bytes=sum(step.input_bytes for step in steps),
        parameters=sum(recorded.numbers for recorded in unique),
        trainable=sum(recorded.trained_numbers for recorded in unique),
        model_bytes=sum(sizes.values()),
        gradient_bytes=sum(sizes.get(key, 0) for key in trained),
        compiled=any(recorded.compiled for recorded in cycle),
    )


class RecordedFunction:
    """A function that a step calls.

    Args:
        concrete: TensorFlow's function.
        program: its operators.
        model: of Keras, if it is a step of one.
    """

    def __init__(self, concrete: Any, program: Program, model: Any) -> None:
        graph = concrete.graph
        self.concrete = concrete  # its id must not become another's
        self.program = program
        self.compiled = bool(getattr(model, "jit_compile", False)) or _is_compiled(concrete)
        own = len(graph.inputs) - len(graph.captures)
        self.data = frozenset(
            position
            for position in range(own)
            if graph.inputs[position].dtype not in (tf.resource, tf.variant)
        )
        optimizer, changed = changed_arguments(program)
        by_handle = {id(variable.handle): variable for variable in graph.variables}
        self.variables: dict[int, tuple[int, str]] = {}
        self.trained: set[int] = set()
        self.numbers = self.trained_numbers = 0
        for position, (external, _) in enumerate(graph.captures):
            variable = by_handle.get(id(external))
            size = _bytes(external if variable is None else variable)
            if size == 0:
                continue
            node = program.arguments[own + position]
            category = "buffer"
            if variable is not None and variable.trainable:
                category = "parameter"
                self.numbers += variable.shape.num_elements()
                if node in optimizer | changed:
                    self.trained.add(id(variable.handle))
                    self.trained_numbers += variable.shape.num_elements()
            elif node in optimizer:
                category = "optimizer"
            self.variables[id(external)] = (size, category)
        self.has_gradients = any(node.phase == "backward" for node in program.nodes)
        self.parameters = [1 for _, category in self.variables.values() if category == "parameter"]


def _memory(variables: list[tuple[int, str]], steps: list[Step], count: int) -> Memory:
    order = sorted(variables, key=lambda variable: CATEGORIES.index(variable[1]))
    blocks = [(size, CATEGORIES.index(category)) for size, category in order]
    events = list(range(1, len(blocks) + 1))
    for _ in range(count):
        for step in steps:
            first = len(blocks)
            blocks += step.blocks
            events += [event + first if event > 0 else event - first for event in step.events]
        events.append(0)
    return Memory(blocks, events)


def _bytes(value: Any) -> int:
    if value.dtype in (tf.resource, tf.variant, tf.string):
        return 0
    return (value.shape.num_elements() or 0) * value.dtype.size


def _is_compiled(concrete: Any) -> bool:
    return bool(concrete.function_def.attr["_XlaMustCompile"].b)
