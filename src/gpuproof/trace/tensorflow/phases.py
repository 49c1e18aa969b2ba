"""What the operators of a graph are for: those that a gradient tape adds, those of an optimizer, and the rest."""

# pyright: reportPrivateUsage=false, reportUnknownLambdaType=false, reportAttributeAccessIssue=false, reportUntypedFunctionDecorator=false

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

import keras
import tensorflow as tf
from tensorflow.python.framework import ops
from tensorflow.python.framework.func_graph import FuncGraph


class Phases:
    """Notes the phase of each operator when it is added to a graph.

    Attributes:
        optimizers: those that were applied, in order.
        on_gradients: called with what a tape returns.
        on_update: called with an optimizer that was applied outside of a graph.
    """

    def __init__(self) -> None:
        self.on_gradients: Callable[[Any], None] = _ignore
        self.on_update: Callable[[Any], None] = _ignore
        self._now: list[str] = ["forward"]
        self._created: weakref.WeakSet[Any] = weakref.WeakSet()
        self._of: dict[tuple[int, str], str] = {}
        self._gradients: dict[tuple[int, str], set[int]] = {}
        self._graphs: dict[int, Any] = {}
        self.optimizers: dict[int, Any] = {}

    def install(self) -> None:
        """Watch graphs, tapes and optimizers from now on."""
        create = ops.Graph._create_op_internal

        def create_operation(graph: Any, *args: Any, **kwargs: Any) -> Any:
            operation = create(graph, *args, **kwargs)
            if self._now[-1] != "forward" and isinstance(graph, FuncGraph):
                self._graphs[id(graph)] = graph
                self._of[id(graph), operation.name] = self._now[-1]
            return operation

        ops.Graph._create_op_internal = create_operation
        tf.GradientTape.gradient = self._watched(tf.GradientTape.gradient, "backward", self._add_gradients)
        base = next(
            base
            for base in reversed(keras.optimizers.Optimizer.__mro__)
            if "apply_gradients" in base.__dict__
        )
        for kind in {*_all_subclasses(base), base}:
            for name in ("apply", "apply_gradients"):
                if name in kind.__dict__:
                    setattr(kind, name, self._watched(kind.__dict__[name], "optimizer", None))
        self._watch_creation(base)
        old = tf.compat.v1.train.Optimizer
        old.apply_gradients = self._watched(old.apply_gradients, "optimizer", None)

    def of(self, operation: Any) -> tuple[str, frozenset[int]]:
        """Phase of an operation, and which of its outputs are gradients of variables."""
        key = (id(operation.graph), operation.name)
        return self._of.get(key, "forward"), frozenset(self._gradients.get(key, ()))

    @property
    def now(self) -> str:
        """The phase of an operator that is called now."""
        return self._now[-1]

    @property
    def has_idle_optimizers(self) -> bool:
        """Whether the script has optimizers that were not applied yet."""
        return any(id(variable) not in self.optimizers for variable in self._created)

    @property
    def optimizer(self) -> str | None:
        """Class of the first optimizer that was applied; of one that scales the loss, the inner one."""
        for optimizer in self.optimizers.values():
            return type(getattr(optimizer, "inner_optimizer", optimizer)).__name__
        return None

    def _watched(self, function: Callable[..., Any], phase: str, note: Any) -> Callable[..., Any]:
        def call(owner: Any, *args: Any, **kwargs: Any) -> Any:
            outermost = self._now[-1] != phase
            if phase == "optimizer":
                self.optimizers.setdefault(id(owner), owner)
            self._now.append(phase)
            try:
                result = function(owner, *args, **kwargs)
            finally:
                self._now.pop()
            if note is not None:
                note(result)
            if phase == "optimizer" and outermost and tf.executing_eagerly():
                self.on_update(owner)
            return result

        return call

    def _add_gradients(self, result: Any) -> None:
        for tensor in tf.nest.flatten(result, expand_composites=True):
            if isinstance(tensor, ops.SymbolicTensor):
                self._graphs[id(tensor.graph)] = tensor.graph
                key = (id(tensor.graph), tensor.op.name)
                self._gradients.setdefault(key, set()).add(tensor.value_index)
        self.on_gradients(result)

    def _watch_creation(self, kind: Any) -> None:
        initialize = kind.__init__

        def init(optimizer: Any, *args: Any, **kwargs: Any) -> None:
            initialize(optimizer, *args, **kwargs)
            self._created.add(optimizer)

        kind.__init__ = init


def _ignore(_: Any) -> None:
    """What is done when nothing watches."""


def _all_subclasses(kind: type[Any]) -> set[type[Any]]:
    found = set(kind.__subclasses__())
    return found.union(*(_all_subclasses(subclass) for subclass in found)) if found else found
