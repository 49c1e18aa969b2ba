"""Which memory a function uses when: each tensor from the operator that makes it to the last one that needs it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from math import prod

from gpuproof.trace.document import CATEGORIES, Operator
from gpuproof.trace.notes import Notes
from gpuproof.trace.tensorflow.program.costs import (
    LARGEST,
    is_host,
    is_reserved_by_cudnn,
    largest_shape,
    operator_of,
    tensor_bytes,
)
from gpuproof.trace.tensorflow.program.graph import Node, Program, needed, writes_variable
from gpuproof.trace.tensorflow.program.operator_kinds import ALIASES, FORWARDING

_ACTIVATION, _TEMPORARY = CATEGORIES.index("activation"), CATEGORIES.index("temporary")
_GRADIENT, _INPUT = CATEGORIES.index("gradient"), CATEGORIES.index("input")
_CONSTANT = 4096
"""Bytes; larger constants that are computed take memory like other tensors."""
_KEPT_IN_LISTS = ("TensorListPushBack", "TensorListSetItem")
_FOLDED = ("Const", "Shape", "ShapeN", "Size", "Rank")


@dataclass
class Step:
    """What a function does.

    Args:
        blocks: (bytes, index in `CATEGORIES`).
        events: as of `document.Memory`, without the end of the step.
        calls: each operator with one call.
        host_operators: that TensorFlow's executor starts.
        input_bytes: of the function's own arguments.
        peak: bytes in use at most.
        pushed: bytes that it puts into lists of tensors.
    """

    blocks: list[tuple[int, int]] = field(default_factory=list)
    events: list[int] = field(default_factory=list)
    calls: list[tuple[Operator, int]] = field(default_factory=list)
    host_operators: int = 0
    input_bytes: int = 0
    peak: int = 0
    pushed: int = 0


def merged(calls: Sequence[tuple[Operator, int]]) -> list[Operator]:
    """Each operator once, with the number of its calls."""
    counts: dict[Operator, int] = {}
    for operator, count in calls:
        counts[operator] = counts.get(operator, 0) + count
    return [replace(operator, calls=count) for operator, count in counts.items()]


def simulate(program: Program, inputs: frozenset[int], notes: Notes) -> Step:
    """Run a function's operators in their order, without computing anything.

    Args:
        program: the function.
        inputs: positions of arguments that are data of this step; the others are variables or constants, which stay.
        notes: takes assumptions about shapes.
    """
    return _Simulation(program, inputs, notes).run()


@dataclass
class _Storage:
    """Memory of one or several tensors.

    Args:
        block: of the step.
        size: bytes.
        last: the last operator that needs it.
        dtype: of its tensors.
        born: the operator that made it.
        released: it was freed.
    """

    block: int
    size: int
    last: int
    dtype: str
    born: int
    released: bool = False


class _Simulation:
    def __init__(self, program: Program, inputs: frozenset[int], notes: Notes) -> None:
        self._program = program
        self._notes = notes
        self._order = needed(program)
        self._data = {program.arguments[position] for position in inputs}
        self._step = Step()
        self._shapes: dict[int, list[tuple[int, ...]]] = {}
        self._storage: dict[tuple[int, int], _Storage] = {}
        self._folded: set[int] = set()
        self._root: dict[tuple[int, int], tuple[int, int]] = {}
        self._last: dict[tuple[int, int], int] = {}
        self._used = 0
        self._end = len(program.nodes)
        backward = (index for index in self._order if program.nodes[index].phase == "backward")
        self._backward = next(backward, self._end + 1)
        self._now = 0

    def run(self) -> Step:
        """The step."""
        self._find_last_uses()
        nodes, step = self._program.nodes, self._step
        for index in self._order:
            node = nodes[index]
            self._now = index
            self._shapes[index] = self._known_shapes(node)
            if node.type == "Placeholder":
                self._take_argument(index, node)
                continue
            if self._is_constant(node):
                self._folded.add(index)
            elif node.body is not None:
                self._run_loop(index, node)
            else:
                self._record(index, node)
            self._allocate(index, node)
            self._free(index, node)
        for storage in self._storage.values():
            self._release(storage)
        return step

    def _find_last_uses(self) -> None:
        nodes = self._program.nodes
        for index in self._order:
            node = nodes[index]
            for place in node.inputs:
                self._last[self._rooted(place)] = index
            if node.type in ALIASES:
                for output in range(min(len(node.inputs), len(node.shapes))):
                    self._root[index, output] = self._rooted(node.inputs[output])
        for place in self._program.results:
            self._last[self._rooted(place)] = self._end

    def _rooted(self, place: tuple[int, int]) -> tuple[int, int]:
        return self._root.get(place, place)

    def _known_shapes(self, node: Node) -> list[tuple[int, ...]]:
        found: list[tuple[int, ...]] = []
        for shape, dtype in zip(node.shapes, node.dtypes):  # noqa: B905
            if shape is not None and None not in shape:
                found.append(tuple(size or 0 for size in shape))
            elif dtype in ("resource", "variant", "string"):
                found.append(())
            else:
                found.append(self._largest(node, shape, dtype))
        return found

    def _largest(self, node: Node, shape: tuple[int | None, ...] | None, dtype: str) -> tuple[int, ...]:
        """An upper limit of a shape that depends on values."""
        inputs = self._inputs(node)
        numbers = max((prod(shape) for shape, dtype in inputs if not is_host(shape, dtype)), default=1)
        nodes = self._program.nodes
        first = all(None not in (nodes[at].shapes[output] or ()) for at, output in node.inputs)
        if numbers > 1 and first and node.inputs and not is_reserved_by_cudnn(node.type):
            self._notes.add("dynamic-shape", LARGEST.format(node.type))
        return largest_shape(node.type, shape, dtype, inputs)

    def _inputs(self, node: Node) -> list[tuple[tuple[int, ...], str]]:
        nodes = self._program.nodes
        return [
            (self._shapes[source][output], nodes[source].dtypes[output]) for source, output in node.inputs
        ]

    def _outputs(self, index: int) -> list[tuple[tuple[int, ...], str]]:
        return list(zip(self._shapes[index], self._program.nodes[index].dtypes))  # noqa: B905

    def _take_argument(self, index: int, node: Node) -> None:
        if index in self._data:
            for output, (shape, dtype) in enumerate(self._outputs(index)):
                size = tensor_bytes(shape, dtype)
                self._step.input_bytes += size
                # The caller holds its batch until the step ends.
                if size and not is_host(shape, dtype):
                    self._storage[index, output] = self._new(size, _INPUT, self._end, dtype)

    def _is_constant(self, node: Node) -> bool:
        """Whether TensorFlow computes it once, when it optimizes the graph."""
        if node.type in _FOLDED or node.type == "VariableShape":
            return True
        stateful = node.operation._is_stateful or writes_variable(node.type)
        return bool(node.inputs) and not stateful and all(source in self._folded for source, _ in node.inputs)

    def _record(self, index: int, node: Node) -> None:
        step = self._step
        if node.type in ("ReadVariableOp", "Identity", "IdentityN", "NoOp"):
            return
        step.host_operators += 1
        inputs, outputs = self._inputs(node), self._outputs(index)
        if node.type in _KEPT_IN_LISTS and not is_host(*inputs[-1]):
            step.pushed += tensor_bytes(*inputs[-1])
        operator = operator_of(node, inputs, outputs)
        if operator is not None:
            step.calls.append((operator, 1))

    def _run_loop(self, index: int, node: Node) -> None:
        """A loop's body once, with what all its iterations keep in lists for the backward pass."""
        body = node.body
        if body is None:
            return
        for position, argument in enumerate(body.arguments):
            given = self._inputs(node)[position][0]
            if None in (body.nodes[argument].shapes[0] or (None,)):
                body.nodes[argument].shapes[0] = given
        inner = simulate(body, frozenset(), self._notes)
        step = self._step
        step.calls += [(operator, count * node.iterations) for operator, count in inner.calls]
        step.host_operators += inner.host_operators * node.iterations
        if inner.peak:
            self._release(self._new(inner.peak, _TEMPORARY, index, ""))
        lists = [output for output, dtype in enumerate(node.dtypes) if dtype == "variant"]
        if inner.pushed and lists:
            last = max(self._last.get((index, output), index) for output in lists)
            storage = self._new(inner.pushed * node.iterations, _TEMPORARY, last, "")
            for output in lists:
                self._storage[index, output] = storage

    def _allocate(self, index: int, node: Node) -> None:
        for output, (shape, dtype) in enumerate(self._outputs(index)):
            place = (index, output)
            root = self._rooted(place)
            if root != place:
                if root in self._storage:
                    self._storage[place] = self._storage[root]
                continue
            size = tensor_bytes(shape, dtype)
            if not size or is_host(shape, dtype) or node.type == "Const":
                continue
            if index in self._folded and size <= _CONSTANT:
                continue
            last = self._last.get(place, index)
            storage = self._forwarded(index, node, size, dtype, last)
            if storage is None:
                storage = self._new(size, _TEMPORARY, last, dtype)
            if output in node.gradients:
                self._step.blocks[storage.block] = (storage.size, _GRADIENT)
            self._storage[place] = storage

    def _forwarded(self, index: int, node: Node, size: int, dtype: str, last: int) -> _Storage | None:
        """The memory of an input that ends here, if the operator can write into it."""
        if node.type not in FORWARDING:
            return None
        for place in node.inputs:
            storage = self._storage.get(place)
            if storage is not None and (storage.last, storage.size, storage.dtype) == (index, size, dtype):
                storage.last = last
                return storage
        return None

    def _free(self, index: int, node: Node) -> None:
        mine = [(index, output) for output in range(len(node.shapes))]
        for place in (*node.inputs, *mine):
            storage = self._storage.get(place)
            if storage is not None and storage.last <= index:
                self._release(storage)

    def _new(self, size: int, category: int, last: int, dtype: str) -> _Storage:
        step = self._step
        step.blocks.append((size, category))
        step.events.append(len(step.blocks))
        self._used += size
        step.peak = max(step.peak, self._used)
        return _Storage(len(step.blocks) - 1, size, last, dtype, self._now)

    def _release(self, storage: _Storage) -> None:
        if storage.released:
            return
        storage.released = True
        step = self._step
        step.events.append(-(storage.block + 1))
        self._used -= storage.size
        size, category = step.blocks[storage.block]
        if category == _TEMPORARY and storage.born < self._backward <= storage.last:
            step.blocks[storage.block] = (size, _ACTIVATION)
