"""Calls of a model without gradients that would only repeat an earlier one: recorded again without running them.

Scripts evaluate a model hundreds of times before their first step, each time with the same shapes.
"""

# pyright: reportPrivateUsage=false, reportPrivateImportUsage=false, reportAttributeAccessIssue=false

from __future__ import annotations

import random
import sys
import weakref
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.utils._pytree import tree_flatten, tree_unflatten

from gpuproof.trace.pytorch.fake_gpu import FakeGpu
from gpuproof.trace.pytorch.recorder import Recorder, Recording

_LEAST_OPERATORS = 16
"""Of a call that is worth it: the state of its module is compared before each one."""
_MOST_KINDS = 256
"""Of calls that are known at a time."""
_TRIES = 8
"""Calls of one kind that may differ before they are no longer compared."""
_DEPTH, _MOST_ITEMS, _MOST_BYTES = 4, 256, 4096
"""How far the attributes of a module are compared."""

_CONSTANTS = (type(None), bool, int, float, str, torch.dtype, torch.device, torch.Size)
_CONTAINERS = (list, tuple, set, frozenset, dict, deque)
_FUNCTIONS = (FunctionType, BuiltinFunctionType, MethodType, ModuleType)
_NO_STATE = {"_parameters", "_buffers", "_modules", "_non_persistent_buffers_set"}
_HOOKS = ("_forward_hooks", "_forward_pre_hooks")
_EMPTY = frozenset(name for name, value in vars(torch.nn.Module()).items() if value == {}) - _NO_STATE
"""Attributes of every module that most modules leave empty."""


@dataclass
class _Kind:
    """Calls of one module with the same arguments and shapes.

    Args:
        module: that is called.
        spec: structure of the arguments.
        state: of the module, which no call has changed.
        recording: of the last call that ran.
        outputs: how to make what it returned.
        left: blocks that were in use after it, besides the result: what autocast keeps until it ends.
        runs: calls that ran.
        is_repeated: two calls did the same.
        step: in which the memory of such a call was last recorded.
        in_use: bytes that were in use before it, at most.
    """

    module: weakref.ref[Any]
    spec: Any
    state: Any = None
    recording: Recording | None = None
    outputs: _Outputs | None = None
    left: list[int] = field(default_factory=list)
    runs: int = 0
    is_repeated: bool = False
    step: int = -1
    in_use: int = 0


@dataclass(frozen=True)
class _Outputs:
    """What a call returns.

    Args:
        spec: its structure.
        leaves: constants, and of each tensor its block, shape, strides, offset and type.
    """

    spec: Any
    leaves: list[Any]

    @property
    def blocks(self) -> set[int]:
        """Those of the tensors."""
        return {leaf.block for leaf in self.leaves if isinstance(leaf, _Tensor)}


@dataclass(frozen=True)
class _Tensor:
    block: int
    size: tuple[int, ...]
    stride: tuple[int, ...]
    offset: int
    dtype: torch.dtype


@dataclass
class RepeatedCalls:
    """Finds calls that repeat earlier ones.

    A call is repeated if two before it with the same arguments did the same on the GPU, changed nothing of the module, drew no
    random numbers of the host, and if no memory but that of the result stayed in use until the next call. Then so will the next one,
    unless the module, a submodule or one of their attributes has changed.

    Args:
        recorder: takes what the calls do.
        fake: the mode that all tensors of the GPU belong to.
        gpu: knows which tensors are on the GPU.
        steps: returns how many steps there were.
        before: called with a module before a call of it that does not run.
        after: called with it after that.
    """

    recorder: Recorder
    fake: FakeTensorMode
    gpu: FakeGpu
    steps: Callable[[], int]
    before: Callable[[Any], None]
    after: Callable[[Any], None]
    _kinds: dict[Any, _Kind] = field(default_factory=dict)

    def call(self, module: Any, run: Callable[[], Any], args: Any, kwargs: Any) -> Any:
        """The result of a call.

        Args:
            module: that is called, with gradients off.
            run: calls it.
            args: its arguments.
            kwargs: its named ones.
        """
        with torch._C.DisableTorchFunction():
            kind = self._kind(module, args, kwargs)
            state = None if kind is None else _state_of(module)
            if kind is not None and state is not None and kind.is_repeated and kind.state == state:
                self.before(module)
                result = self._repeat(kind)
                self.after(module)
                return result
        if kind is None or state is None:
            return run()
        return self._run(kind, module, run, state)

    def _kind(self, module: Any, args: Any, kwargs: Any) -> _Kind | None:
        leaves, spec = tree_flatten((args, kwargs))
        key: list[Any] = [id(module), self.gpu.in_autocast, torch.get_autocast_dtype("cpu")]
        on_gpu = False
        for leaf in leaves:
            if type(leaf) is FakeTensor and self.gpu.is_on_gpu(leaf):
                key.append((leaf.shape, leaf.stride(), leaf.dtype))
                on_gpu = True
            elif isinstance(leaf, _CONSTANTS):
                key.append((type(leaf), leaf))
            else:
                return None
        if not on_gpu:
            return None
        name = tuple(key)
        kind = self._kinds.get(name)
        if kind is None or kind.module() is not module or kind.spec != spec:
            while len(self._kinds) >= _MOST_KINDS:
                del self._kinds[next(iter(self._kinds))]
            kind = self._kinds[name] = _Kind(weakref.ref(module), spec)
        return None if kind.runs >= _TRIES and not kind.is_repeated else kind

    def _run(self, kind: _Kind, module: Any, run: Callable[[], Any], state: Any) -> Any:
        recorder = self.recorder
        random_numbers = _random_numbers()
        start, in_use = recorder.mark(), recorder.allocated
        nothing_left = not any(recorder.is_in_use(block) for block in kind.left)
        result = run()
        with torch._C.DisableTorchFunction():
            recording = recorder.recording(start)
            outputs = self._outputs(result, start)
            is_pure = (
                outputs is not None
                and len(recording.calls) >= _LEAST_OPERATORS
                and all(call.phase == "forward" for call in recording.calls)
                and _random_numbers() == random_numbers
                and _state_of(module) == state
            )
        kind.is_repeated = (
            is_pure
            and nothing_left
            and kind.state == state
            and kind.recording == recording
            and kind.outputs == outputs
        )
        results = set() if outputs is None else outputs.blocks
        kind.left = [start.blocks + block for block in recording.kept if block not in results]
        kind.runs += 1
        kind.state, kind.recording, kind.outputs = (
            (state, recording, outputs) if is_pure else (None, None, None)
        )
        kind.step, kind.in_use = self.steps(), in_use
        return result

    def _outputs(self, result: Any, start: Any) -> _Outputs | None:
        leaves, spec = tree_flatten(result)
        found: list[Any] = []
        for leaf in leaves:
            if isinstance(leaf, _CONSTANTS):
                found.append(leaf)
                continue
            block = self.recorder.block_of(leaf, start) if type(leaf) is FakeTensor else None
            if block is None or leaf.requires_grad:
                return None
            found.append(
                _Tensor(block, tuple(leaf.shape), leaf.stride(), int(leaf.storage_offset()), leaf.dtype)
            )
        return _Outputs(spec, found)

    def _repeat(self, kind: _Kind) -> Any:
        recorder, recording, outputs = self.recorder, kind.recording, kind.outputs
        assert recording is not None and outputs is not None  # noqa: PT018 - of kinds that are repeated
        blocks: dict[int, Any] = {}
        leaves: list[Any] = []
        with torch.no_grad(), self.fake:
            for leaf in outputs.leaves:
                if isinstance(leaf, _Tensor):
                    if leaf.block not in blocks:
                        blocks[leaf.block] = torch.empty(recording.blocks[leaf.block][0], dtype=torch.uint8)
                    whole = blocks[leaf.block].view(leaf.dtype)
                    leaf = whole.as_strided(leaf.size, leaf.stride, leaf.offset)  # noqa: PLW2901
                leaves.append(leaf)
        step, in_use = self.steps(), recorder.allocated
        # Once in a step: a call that begins with no more memory in use needs no more either.
        with_memory = step != kind.step or in_use > kind.in_use
        if with_memory:
            kind.step, kind.in_use = step, in_use
        recorder.enter("forward")
        recorder.repeat(recording, blocks, with_memory=with_memory)
        return tree_unflatten(leaves, outputs.spec)


def _random_numbers() -> tuple[Any, ...]:
    """The state of the host's generators."""
    numpy = sys.modules.get("numpy")
    of_numpy = None if numpy is None else numpy.random.get_state()[1:3]
    return (
        random.getstate(),
        None if of_numpy is None else (of_numpy[0].tobytes(), of_numpy[1]),
        bytes(torch.default_generator.get_state().numpy()),
    )


def _state_of(module: Any) -> Any:
    """Everything of a module that may decide what a call does, as a value to compare; None if that cannot be known."""
    seen: dict[int, Any] = {}
    found: list[Any] = []
    parts, known = [module], {id(module)}
    for part in parts:
        attributes = part.__dict__
        if any(attributes.get(name) for name in _HOOKS):
            return None  # a hook is the script's own code
        found.append(id(part))
        for name, value in attributes.items():
            if name not in _NO_STATE and (value or name not in _EMPTY):
                found.append((name, _compared(value, _DEPTH, seen)))
        for tensors in (attributes["_parameters"], attributes["_buffers"]):
            found += [tensor if tensor is None else _of_tensor(tensor) for tensor in tensors.values()]
        children = attributes["_modules"].values()
        found.append([*map(id, children)])
        for child in children:
            if child is not None and id(child) not in known:
                known.add(id(child))
                parts.append(child)
    return found


def _of_tensor(tensor: Any) -> Any:
    # What is on the GPU has no values, so none that change.
    version = None if isinstance(tensor, FakeTensor) else tensor._version
    return id(tensor), tensor.shape, tensor.dtype, version


def _compared(value: Any, depth: int, seen: dict[int, Any]) -> Any:
    """A value that is equal as long as another one does not change; never equal if that cannot be known."""
    if isinstance(value, _CONSTANTS):
        return value
    if isinstance(value, torch.Tensor):
        return _of_tensor(value)
    if id(value) in seen:
        return seen[id(value)]
    seen[id(value)] = id(value)
    seen[id(value)] = found = id(value), *_content(value, depth, seen)
    return found


def _content(value: Any, depth: int, seen: dict[int, Any]) -> Iterator[Any]:
    if isinstance(value, (torch.nn.Module, type)) or depth == 0:
        return
    if hasattr(value, "__next__") or type(value).__module__ in ("random", "numpy.random", "_random"):
        yield object()  # may be another one in the next call
    elif isinstance(value, _CONTAINERS):
        yield len(value)
        if len(value) > _MOST_ITEMS:
            return
        for item in value:
            yield _compared(item, depth - 1, seen)
            if isinstance(value, dict):
                yield _compared(value[item], depth - 1, seen)
    elif hasattr(value, "tobytes"):
        yield value.tobytes() if value.nbytes <= _MOST_BYTES else value.nbytes
    elif not isinstance(value, _FUNCTIONS) and hasattr(value, "__dict__"):
        yield _compared(vars(value), depth - 1, seen)
