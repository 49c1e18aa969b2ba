"""Results of operators by the shapes of their arguments: PyTorch computes each once, which takes ten times as long as to repeat it."""

# pyright: reportPrivateUsage=false, reportPrivateImportUsage=false, reportAttributeAccessIssue=false

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode

from gpuproof.trace.pytorch.recorder import Call

_META = torch.device("meta")
_HOST = torch.device("cpu")
_MOST = 50_000
"""Combinations of an operator and shapes that are known at a time."""
_VALUES = frozenset(
    {type(None), bool, int, float, str, torch.dtype, torch.device, torch.layout, torch.memory_format}
)


@dataclass(frozen=True)
class Effect:
    """What to record of an operator.

    Args:
        calls_cublas: whether it is a product that cuBLAS computes.
        workspaces: bytes that each result takes while it is computed.
        call: of a kernel; None for a view.
    """

    calls_cublas: bool
    workspaces: list[int]
    call: Call | None


@dataclass(frozen=True)
class _Result:
    """One tensor that an operator returns.

    Args:
        source: index of the argument that it is, or whose memory it shares, among all tensors; None for a new tensor.
        is_argument: it is that argument itself.
        size: its shape.
        stride: its strides.
        offset: in numbers, from the start of the memory.
        dtype: its type.
    """

    source: int | None
    is_argument: bool
    size: tuple[int, ...]
    stride: tuple[int, ...]
    offset: int
    dtype: torch.dtype


@dataclass
class KnownResults:
    """What an operator returns.

    Args:
        function: the operator, whose id must not become another's.
        results: of each tensor.
        kind: `tuple` or `list`; None for a single tensor or no result.
        effects: what to record, by the phase of a step.
    """

    function: Any
    results: list[_Result]
    kind: Callable[[list[Any]], Any] | None
    effects: dict[str, Effect] = field(default_factory=dict)


class OperatorResults:
    """Operators that were called before, and what they return for these shapes.

    Known are those of PyTorch itself whose arguments are tensors of the GPU and values, whose results are tensors, and that leave
    the shapes of their arguments as they are.

    Args:
        fake: the mode that all tensors of the GPU belong to.
    """

    def __init__(self, fake: FakeTensorMode) -> None:
        self._fake = fake
        self._known: dict[tuple[Any, ...], KnownResults] = {}
        # As FakeTensor does: what becomes of a script that asks for the address of the memory.
        is_allowed = getattr(fake, "_allow_unsafe_data_ptr_access", True)
        access = (
            "_set_warn_deprecated_on_mutable_data_ptr" if is_allowed else "_set_throw_on_mutable_data_ptr"
        )
        self._set_access: Any = getattr(torch._C, access, None)
        self._attributes = dict(vars(FakeTensor(fake, torch.empty(0, device=_META), _HOST)))

    def call(
        self, function: Any, args: Any, kwargs: dict[str, Any], inputs: list[Any]
    ) -> tuple[Any, KnownResults | None]:
        """The result of an operator, and what is known about it.

        Args:
            function: the operator.
            args: its arguments.
            kwargs: its named ones.
            inputs: all tensors of the GPU among these, in order.
        """
        with torch._C.DisableTorchFunction():
            key = self._key(function, args, kwargs)
            known = None if key is None else self._known.get(key)
            if known is not None:
                return self._make(known, inputs), known
        result = function(*args, **kwargs)
        if key is not None:
            with torch._C.DisableTorchFunction():
                if self._key(function, args, kwargs) == key:
                    known = self._remember(key, function, inputs, result)
        return result, known

    def _key(self, function: Any, args: Any, kwargs: dict[str, Any]) -> tuple[Any, ...] | None:
        """What decides the results; None if that is not known."""
        if function.namespace != "aten":
            return None
        # No number decides what an operator returns that only changes its argument.
        skip_floats = function._schema.name.endswith("_")
        found: list[Any] = [id(function)]
        if not self._add(found, args, skip_floats):
            return None
        for name, value in kwargs.items():
            found.append(name)
            if not self._add(found, (value,), skip_floats):
                return None
        return tuple(found)

    def _make(self, known: KnownResults, inputs: list[Any]) -> Any:
        tensors = [self._tensor(result, inputs) for result in known.results]
        if known.kind is not None:
            return known.kind(tensors)
        return tensors[0] if tensors else None

    def _remember(
        self, key: tuple[Any, ...], function: Any, inputs: list[Any], result: Any
    ) -> KnownResults | None:
        kind = type(result) if type(result) in (tuple, list) else None
        tensors: list[Any] = list(result) if kind else [] if result is None else [result]
        if not all(type(tensor) is FakeTensor for tensor in tensors):
            return None
        results: list[_Result] = []
        storages = [tensor.untyped_storage() for tensor in inputs]  # all are strided
        new: set[int] = set()
        for tensor in tensors:
            found = self._described(tensor, inputs, storages)
            if found is None:
                return None
            if found.source is None:
                storage = id(tensor.untyped_storage())
                if storage in new:
                    return None
                new.add(storage)
            results.append(found)
        if len(self._known) >= _MOST:
            self._known.clear()
        known = self._known[key] = KnownResults(function, results, kind)
        return known

    def _add(self, found: list[Any], values: Any, skip_floats: bool) -> bool:
        for value in values:
            kind = type(value)
            if kind is FakeTensor:
                if (
                    value.layout is not torch.strided
                    or value.fake_mode is not self._fake
                    or value.constant is not None
                    or value.is_conj()
                    or value.is_neg()
                ):
                    return False
                found += (value.shape, value.stride(), value.dtype, value.storage_offset())
            elif kind in _VALUES:
                found += (kind, None if skip_floats and kind is float else value)
            elif kind in (list, tuple):
                found += (kind, len(value))
                if not self._add(found, value, skip_floats):
                    return False
            else:
                return False
        return True

    def _described(self, tensor: Any, inputs: list[Any], storages: list[Any]) -> _Result | None:
        if (
            tensor.layout is not torch.strided
            or tensor.constant is not None
            or tensor.is_conj()
            or tensor.is_neg()
        ):
            return None
        storage = tensor.untyped_storage()
        shape = tuple(tensor.shape), tensor.stride(), tensor.storage_offset(), tensor.dtype
        for index, source in enumerate(inputs):
            if tensor is source:
                return _Result(index, True, *shape)
        for index, source in enumerate(storages):
            if storage is source:
                return _Result(index, False, *shape)
        made = torch.empty_strided(shape[0], shape[1], dtype=tensor.dtype, device=_META)
        is_whole = made.untyped_storage().nbytes() == storage.nbytes() and shape[2] == 0
        return _Result(None, False, *shape) if is_whole else None

    def _tensor(self, result: _Result, inputs: list[Any]) -> Any:
        if result.source is not None and result.is_argument:
            return inputs[result.source]
        with torch._C._DisableTorchDispatch():
            if result.source is None:
                made = torch.empty_strided(result.size, result.stride, dtype=result.dtype, device=_META)
            else:
                made = torch.empty(0, dtype=result.dtype, device=_META)
                storage = inputs[result.source].untyped_storage()
                made.set_(storage, result.offset, result.size, result.stride)
            tensor: Any = torch.Tensor._make_subclass(
                FakeTensor, made, False, dispatch_device=True, device_for_backend_keys=_HOST
            )
        if self._set_access is not None:
            self._set_access(tensor)
        tensor.__dict__.update(self._attributes)
        return tensor
