"""Measures how long a compiled step waits for its input.

Keras fetches the next batch inside of the function that it compiles, where no clock of Python can see it. While such a function is
traced, the operation that fetches a batch is put between two timestamps, whose difference is added up in a variable on the host.
"""

from __future__ import annotations

import functools
from typing import Any, Callable

_LOCAL_STRATEGIES = (
    *(
        "_DefaultDistributionStrategy",
        "_DefaultDistributionExtended",
        "OneDeviceStrategy",
        "OneDeviceStrategyV1",
    ),
    *("MirroredStrategy", "MultiWorkerMirroredStrategy", "CollectiveAllReduceStrategy"),
)
"""Strategies whose functions run on this host. Those of a parameter server's coordinator run elsewhere, without its variables."""


class GraphInput:
    """Seconds that compiled steps have waited for their input.

    Args:
        tensorflow: the module.
        is_traced: whether a training step is being traced.
    """

    def __init__(self, tensorflow: Any, is_traced: Callable[[], bool]) -> None:
        self._tensorflow = tensorflow
        self._is_traced = is_traced
        self._handle: Any = None
        self._taken = 0.0

    @property
    def is_measured(self) -> bool:
        """Whether a function has been traced whose input is measured."""
        return self._handle is not None

    def take(self) -> float:
        """The seconds since the last call."""
        if self._handle is None:
            return 0.0
        tensorflow = self._tensorflow
        with tensorflow.device("CPU:0"):
            total = float(
                tensorflow.raw_ops.ReadVariableOp(resource=self._handle, dtype=tensorflow.float64).numpy()
            )
        waited, self._taken = total - self._taken, total
        return max(waited, 0.0)

    def measure(self, owner: type[Any], method: str) -> None:
        """Measure a method that fetches a batch, wherever it is traced as part of a training step."""
        original = getattr(owner, method, None)
        if original is None:
            return

        @functools.wraps(original)
        def fetch(iterator: Any, *arguments: Any, **options: Any) -> Any:
            began = self._begin()
            if began is None:
                return original(iterator, *arguments, **options)
            self._inside = True
            try:
                with self._tensorflow.control_dependencies([began]):
                    values = original(iterator, *arguments, **options)
            finally:
                self._inside = False
            self._end(began, values)
            return values

        setattr(owner, method, fetch)

    _inside = False

    def _begin(self) -> Any:
        """A timestamp in the graph; `None` where nothing is measured."""
        tensorflow = self._tensorflow
        if self._inside or tensorflow.executing_eagerly() or not self._is_traced():
            return None
        try:
            if type(tensorflow.distribute.get_strategy()).__name__ not in _LOCAL_STRATEGIES:
                return None
            if self._handle is None:
                self._handle = self._variable()
            with tensorflow.device("CPU:0"):
                return tensorflow.timestamp()
        except Exception:  # noqa: BLE001 - the step is compiled without the measurement
            return None

    def _end(self, began: Any, values: Any) -> None:
        tensorflow = self._tensorflow
        try:
            parts = tensorflow.nest.flatten(values, expand_composites=True)
            tensors = [part for part in parts if isinstance(part, tensorflow.Tensor)]
            with tensorflow.device("CPU:0"):
                with tensorflow.control_dependencies(tensors):
                    ended = tensorflow.timestamp()
                tensorflow.raw_ops.AssignAddVariableOp(resource=self._handle, value=ended - began)
        except Exception:  # noqa: BLE001, S110
            pass

    def _variable(self) -> Any:
        """The handle of a variable on the host, outside of the graph and of any distribution strategy."""
        tensorflow = self._tensorflow
        with tensorflow.init_scope(), tensorflow.device("CPU:0"):
            handle = tensorflow.raw_ops.VarHandleOp(
                dtype=tensorflow.float64, shape=[], shared_name="gpuproof_input_seconds", container=""
            )
            tensorflow.raw_ops.AssignVariableOp(
                resource=handle, value=tensorflow.constant(0.0, tensorflow.float64)
            )
        return handle
