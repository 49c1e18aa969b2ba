"""The operators of a TensorFlow function as one list, with calls and branches inlined."""

# pyright: reportPrivateUsage=false, reportUnknownLambdaType=false, reportAttributeAccessIssue=false, reportUntypedFunctionDecorator=false

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from gpuproof.trace.notes import Notes
from gpuproof.trace.tensorflow.phases import Phases

_CALLS = ("PartitionedCall", "StatefulPartitionedCall")
_LOOPS = ("While", "StatelessWhile")
_CONDITIONS = ("If", "StatelessIf", "Case", "StatelessCase")
_WRITES = ("Assign", "ResourceApply", "ResourceSparseApply", "ResourceScatter")


@dataclass
class Node:
    """An operator.

    Args:
        type: such as `MatMul`; `Placeholder` for an argument.
        operation: TensorFlow's own, for its attributes.
        inputs: (node, output) of each input.
        shapes: of its outputs; numbers that are not known are None, and so is a shape of unknown rank.
        dtypes: of its outputs, such as `float32`.
        phase: one of `document.PHASES`.
        gradients: outputs that are gradients of variables.
        body: of a loop.
        iterations: how often the body runs.
    """

    type: str
    operation: Any
    inputs: list[tuple[int, int]]
    shapes: list[tuple[int | None, ...] | None]
    dtypes: list[str]
    phase: str
    gradients: frozenset[int] = frozenset()
    body: Program | None = None
    iterations: int = 1


@dataclass
class Program:
    """A function.

    Args:
        nodes: in the order of their creation, in which each follows its inputs.
        arguments: nodes of the function's inputs.
        results: (node, output) of the function's outputs.
    """

    nodes: list[Node] = field(default_factory=list)
    arguments: list[int] = field(default_factory=list)
    results: list[tuple[int, int]] = field(default_factory=list)


def build_program(graph: Any, phases: Phases, notes: Notes, phase: str = "forward") -> Program:
    """The operators of a function.

    Args:
        graph: its `FuncGraph`.
        phases: what its operators are for.
        notes: takes assumptions about loops and branches.
        phase: in which it is called.
    """
    builder = _Builder(phases, notes)
    program = Program()
    places = builder.add(program, graph, None, phase)
    program.arguments = [places[tensor.op.name][0][0] for tensor in graph.inputs]
    program.results = [_place(places, tensor) for tensor in graph.outputs]
    return program


def writes_variable(type_: str) -> bool:
    """Whether operators of a type change a variable."""
    return type_.startswith(_WRITES)


def needed(program: Program) -> list[int]:
    """The nodes that run, in order: those that results and changes of variables depend on."""
    seen: set[int] = set()
    pending = [node for node, _ in program.results] + list(program.arguments)
    pending += [
        index
        for index, node in enumerate(program.nodes)
        if writes_variable(node.type) or node.type == "While"
    ]
    while pending:
        index = pending.pop()
        if index not in seen:
            seen.add(index)
            pending += [source for source, _ in program.nodes[index].inputs]
    return sorted(seen)


def changed_arguments(program: Program) -> tuple[set[int], set[int]]:
    """Arguments that an optimizer changes, and that others change."""
    optimizer: set[int] = set()
    others: set[int] = set()
    for node in program.nodes:
        if writes_variable(node.type):
            (optimizer if node.phase == "optimizer" else others).update(
                source for source, output in node.inputs if program.nodes[source].dtypes[output] == "resource"
            )
    return optimizer, others


class _Builder:
    def __init__(self, phases: Phases, notes: Notes) -> None:
        self._phases = phases
        self._notes = notes

    def add(
        self, program: Program, graph: Any, arguments: Sequence[tuple[int, int]] | None, caller: str
    ) -> dict[str, list[tuple[int, int]]]:
        """Adds a graph's operations; returns where the outputs of each are.

        Args:
            arguments: what its inputs are; None if they are the program's own.
            caller: phase of the call.
        """
        places: dict[str, list[tuple[int, int]]] = {}
        if arguments is not None:
            places.update((tensor.op.name, [place]) for tensor, place in zip(graph.inputs, arguments))  # noqa: B905
        for operation in _ordered(graph):
            if operation.name not in places:
                inputs = [_place(places, tensor) for tensor in operation.inputs]
                own, gradients = self._phases.of(operation)
                phase = own if caller == "forward" else caller
                places[operation.name] = self._outputs(program, operation, inputs, phase, gradients)
        return places

    def _outputs(
        self,
        program: Program,
        operation: Any,
        inputs: list[tuple[int, int]],
        phase: str,
        gradients: frozenset[int],
    ) -> list[tuple[int, int]]:
        if operation.type in _CALLS:
            graph = _function(operation, operation.get_attr("f"))
            return self._inlined(program, graph, inputs, phase)
        if operation.type in _CONDITIONS:
            graph = max(_branches(operation), key=_size)
            self._notes.add(
                "branch", "Of a condition in the graph, the branch with more operators was taken."
            )
            return self._inlined(program, graph, inputs[1:], phase)
        shapes: list[tuple[int | None, ...] | None] = []
        for tensor in operation.outputs:
            shape = tensor.shape
            shapes.append(None if shape.rank is None else tuple(shape.as_list()))
        dtypes = [tensor.dtype.base_dtype.name for tensor in operation.outputs]
        node = Node(operation.type, operation, inputs, shapes, dtypes, phase, gradients)
        if operation.type in _LOOPS:
            self._add_loop(program, node)
        program.nodes.append(node)
        return [(len(program.nodes) - 1, output) for output in range(len(shapes))]

    def _inlined(
        self, program: Program, graph: Any, inputs: list[tuple[int, int]], phase: str
    ) -> list[tuple[int, int]]:
        places = self.add(program, graph, inputs, phase)
        return [_place(places, tensor) for tensor in graph.outputs]

    def _add_loop(self, program: Program, node: Node) -> None:
        graph = _function(node.operation, node.operation.get_attr("body"))
        body = Program()
        places = self.add(body, graph, None, node.phase)
        body.arguments = [places[tensor.op.name][0][0] for tensor in graph.inputs]
        body.results = [_place(places, tensor) for tensor in graph.outputs]
        node.body = body
        known = _iterations(program, node.inputs)
        node.iterations = known or 1
        times = f"{known} times" if known else "once, because its number of iterations is not known"
        self._notes.add("loop", f"A loop in the graph was taken to run {times}.")


def _place(places: dict[str, list[tuple[int, int]]], tensor: Any) -> tuple[int, int]:
    return places[tensor.op.name][tensor.value_index]


def _ordered(graph: Any) -> list[Any]:
    """A graph's operations, each after its inputs: the gradient of a loop adds inputs to operations that are there."""
    order: list[Any] = []
    seen: set[str] = set()
    for first in graph.get_operations():
        pending = [first]
        while pending:
            operation = pending[-1]
            missing = [input_.op for input_ in operation.inputs if input_.op.name not in seen]
            if missing and operation.name not in seen:
                pending += missing
                continue
            pending.pop()
            if operation.name not in seen:
                seen.add(operation.name)
                order.append(operation)
    return order


def _function(operation: Any, attribute: Any) -> Any:
    return operation.graph._get_function(attribute.name).graph


def _branches(operation: Any) -> list[Any]:
    if operation.type.endswith("If"):
        return [_function(operation, operation.get_attr(name)) for name in ("then_branch", "else_branch")]
    return [_function(operation, branch) for branch in operation.get_attr("branches")]


def _size(graph: Any) -> int:
    """Operations, with those of the functions that they call."""
    count = 0
    for operation in graph.get_operations():
        count += 1
        if operation.type in _CALLS:
            count += _size(_function(operation, operation.get_attr("f")))
    return count


def _iterations(program: Program, inputs: Sequence[tuple[int, int]]) -> int | None:
    """The most iterations of a loop, which `tf.while_loop` and its gradient take as the second input."""
    value = _constant(program, inputs[1]) if len(inputs) > 1 else None
    return int(value) if value is not None and value.ndim == 0 and int(value) > 0 else None


def _constant(program: Program, place: tuple[int, int]) -> Any:
    """An array that follows from shapes and constants; None if it depends on data."""
    import numpy as np
    from tensorflow.python.framework import tensor_util

    node = program.nodes[place[0]]
    if node.type == "Const":
        return tensor_util.MakeNdarray(node.operation.get_attr("value"))
    if node.type == "Shape":
        source, output = node.inputs[0]
        shape = program.nodes[source].shapes[output]
        return None if shape is None or None in shape else np.array(shape)
    if node.type not in ("Identity", "Cast", "StridedSlice", "Maximum", "Minimum", "Max", "Min", "Squeeze"):
        return None
    only = node.inputs[:1] if node.type in ("Max", "Min") else node.inputs
    given = [_constant(program, input_) for input_ in only]
    if any(value is None for value in given):
        return None
    if node.type == "StridedSlice":
        return given[0][int(given[1][0])] if node.operation.get_attr("shrink_axis_mask") == 1 else None
    if node.type in ("Max", "Min"):
        return given[0] if given[0].ndim == 0 else None
    return {"Maximum": np.maximum, "Minimum": np.minimum}.get(node.type, lambda value: value)(*given)
