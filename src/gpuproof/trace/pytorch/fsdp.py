"""FSDP in both of its forms: the model stays whole, and its units and precision say what a share of it needs."""

# pyright: reportPrivateUsage=false, reportPrivateImportUsage=false, reportAttributeAccessIssue=false, reportUnknownLambdaType=false

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.utils._pytree import tree_map

from gpuproof.trace.document import Sharding
from gpuproof.trace.notes import Notes
from gpuproof.trace.pytorch.fake_gpu import GPU
from gpuproof.trace.pytorch.modules import SingleGpu

_KEEPS_PARAMETERS = ("SHARD_GRAD_OP", "_HYBRID_SHARD_ZERO2")
"""Strategies that gather the parameters once in a step."""


class ShardedModels:
    """What the script shards.

    Args:
        notes: takes what is left out.
        on_shard: called with the strategy and the module.
    """

    def __init__(self, notes: Notes, on_shard: Callable[[str, Any], None]) -> None:
        self._notes = notes
        self._on_shard = on_shard
        self._units: list[Any] = []
        self._keep_gathered: list[bool] = []
        self._copies_gathered = False
        self._share_factor = self._reduce_factor = 1.0

    def install(self) -> None:
        """Replace `FullyShardedDataParallel` and `fully_shard`."""
        import torch.distributed.fsdp as fsdp

        fsdp.FullyShardedDataParallel = _wrapper(self)  # type: ignore[misc,assignment]
        if hasattr(fsdp, "fully_shard"):
            fsdp.fully_shard = _function(self, fsdp)  # type: ignore[assignment]

    def shard(self, module: Any, *, keeps_gathered: bool = False, copies_gathered: bool = False) -> None:
        """A module becomes a unit, without those within it that are units already."""
        self._units.append(module)
        self._keep_gathered.append(keeps_gathered)
        self._copies_gathered |= copies_gathered
        self._on_shard("fsdp", module)

    def replicate(self, module: Any) -> None:
        """A module is not sharded: NO_SHARD is what DistributedDataParallel does."""
        self._on_shard("ddp", module)

    def leave_out_offload(self) -> None:
        """The host's memory is not planned."""
        self._notes.add("offload", "CPU offload of FSDP was left out: shares stay on the GPU.")

    def convert(self, module: Any, dtype: Any, reduce_dtype: Any = None) -> None:
        """Let a unit compute in another type than its shares are kept in, and reduce its gradients in a third one."""
        sizes = {
            parameter.dtype.itemsize for parameter in module.parameters() if parameter.is_floating_point()
        }
        if sizes and reduce_dtype is not None:
            made = max(sizes) if dtype is None else dtype.itemsize
            self._reduce_factor = max(self._reduce_factor, reduce_dtype.itemsize / made)
        if dtype is None:
            return
        buffers = [(child, dict(child._buffers)) for child in module.modules()]
        module.to(dtype)
        for owner, kept in buffers:
            for name, buffer in kept.items():
                if buffer is not None and buffer.is_floating_point():
                    owner._buffers[name] = owner._buffers[name].to(buffer.dtype)
        if sizes:
            self._share_factor = max(self._share_factor, max(sizes) / dtype.itemsize)

    def sharding(self) -> Sharding | None:
        """The units, the outermost one last; None if nothing was sharded."""
        if not self._units:
            return None
        seen: set[int] = set()
        sizes: list[int] = []
        for unit in self._units:
            own = [parameter for parameter in unit.parameters() if id(parameter) not in seen]
            seen.update(map(id, own))
            sizes.append(sum(parameter.numel() * parameter.element_size() for parameter in own))
        # The last layer often stays, because its backward pass follows at once; the outermost unit stays in any case.
        keeps = all(self._keep_gathered[:-1] or self._keep_gathered)
        return Sharding(sizes, keeps, self._share_factor, self._reduce_factor, self._copies_gathered)


def _wrapper(models: ShardedModels) -> Any:
    class FullyShardedDataParallel(SingleGpu):
        """The first form: a wrapper around a module."""

        def __init__(
            self,
            module: Any,
            process_group: Any = None,
            sharding_strategy: Any = None,
            cpu_offload: Any = None,
            auto_wrap_policy: Any = None,
            *_: Any,
            mixed_precision: Any = None,
            device_id: Any = None,
            **__: Any,
        ) -> None:
            super().__init__(module)
            if device_id is not None:
                module.to(GPU)
            if getattr(cpu_offload, "offload_params", False):
                models.leave_out_offload()
            strategy = getattr(sharding_strategy, "name", "FULL_SHARD")
            if mixed_precision is not None:
                models.convert(module, mixed_precision.param_dtype, mixed_precision.reduce_dtype)
                if mixed_precision.cast_root_forward_inputs or mixed_precision.cast_forward_inputs:
                    _cast_inputs(module, mixed_precision.param_dtype)
            if strategy == "NO_SHARD":
                models.replicate(module)
                return
            for unit in (*_units_of(module, auto_wrap_policy), module):
                models.shard(unit, keeps_gathered=strategy in _KEEPS_PARAMETERS)

        def clip_grad_norm_(self, max_norm: float, norm_type: float = 2.0) -> Any:
            """Of all shares."""
            return torch.nn.utils.clip_grad_norm_(self.parameters(), max_norm, norm_type)

        def check_is_root(self) -> bool:
            """The outermost wrapper, as far as is known."""
            return True

        @staticmethod
        def fsdp_modules(module: Any, root_only: bool = False) -> list[Any]:
            """All wrappers within a module."""
            found = [wrapper for wrapper in module.modules() if isinstance(wrapper, FullyShardedDataParallel)]
            return found[:1] if root_only else found

        @staticmethod
        @contextmanager
        def state_dict_type(*_: Any, **__: Any) -> Generator[None, None, None]:
            """The whole state is here."""
            yield

        summon_full_params = state_dict_type

        @staticmethod
        def set_state_dict_type(*_: Any, **__: Any) -> None:
            """The whole state is here."""

        @staticmethod
        def optim_state_dict(model: Any, optim: Any, *_: Any, **__: Any) -> Any:
            """Of the optimizer itself."""
            return optim.state_dict()

        @staticmethod
        def full_optim_state_dict(model: Any, optim: Any, *_: Any, **__: Any) -> Any:
            """Of the optimizer itself."""
            return optim.state_dict()

        @staticmethod
        def optim_state_dict_to_load(
            model: Any = None, optim: Any = None, optim_state_dict: Any = None, **_: Any
        ) -> Any:
            """As it is."""
            return optim_state_dict

    return FullyShardedDataParallel


def _units_of(module: Any, policy: Any) -> list[Any]:
    """The modules within another one that a policy wraps, the inner ones first."""
    from torch.distributed.fsdp.wrap import _Policy, _recursive_wrap

    if policy is None:
        return []
    found: list[Any] = []
    if isinstance(policy, _Policy):
        chosen = policy._run_policy(module, set(), {})
        found = [
            child for child in reversed(list(module.modules())) if child in chosen and child is not module
        ]
        return found

    class Noted:
        def __new__(cls, wrapped: Any, **_: Any) -> Any:
            found.append(wrapped)
            return wrapped

    _recursive_wrap(
        module,
        auto_wrap_policy=policy,
        wrapper_cls=Noted,  # type: ignore[arg-type]
        ignored_modules=set(),
        ignored_params=set(),
        only_wrap_children=True,
    )
    return found


def _function(models: ShardedModels, fsdp: Any) -> Any:
    class Sharded(fsdp.FSDPModule):
        """The class of modules after `fully_shard`, whose methods have nothing to do."""

        def __new__(cls, *args: Any, **kwargs: Any) -> Any:
            return super(fsdp.FSDPModule, cls).__new__(cls)

        def _apply(self, function: Any, recurse: bool = True) -> Any:
            return torch.nn.Module._apply(self, function, recurse)  # type: ignore[arg-type]

    for name in vars(fsdp.FSDPModule):
        if not name.startswith("_"):
            setattr(Sharded, name, lambda *_, **__: None)

    def fully_shard(
        module: Any,
        *,
        reshard_after_forward: Any = None,
        mp_policy: Any = None,
        offload_policy: Any = None,
        **_: Any,
    ) -> Any:
        _answer_for_shares()
        for unit in module if isinstance(module, (list, tuple)) else [module]:
            if not any(parameter.is_meta for parameter in unit.parameters()):
                unit.to(GPU)
            dtype = getattr(mp_policy, "param_dtype", None)
            models.convert(unit, dtype, getattr(mp_policy, "reduce_dtype", None))
            if dtype is not None and mp_policy.cast_forward_inputs:
                _cast_inputs(unit, dtype)
            if type(offload_policy).__name__ == "CPUOffloadPolicy":
                models.leave_out_offload()
            models.shard(unit, keeps_gathered=reshard_after_forward is False, copies_gathered=True)
            if not isinstance(unit, Sharded):
                kind = type(unit)
                unit.__class__ = type(f"FSDP{kind.__name__}", (Sharded, kind), {})
        return module

    return fully_shard


def _answer_for_shares() -> None:
    """Let parameters have the members of `DTensor` that scripts read; each is the whole one."""
    from torch.distributed.tensor import Shard  # slow to import

    kind: Any = FakeTensor
    kind.placements = (Shard(0),)
    kind.full_tensor = kind.to_local = lambda self: self


def _cast_inputs(module: Any, dtype: Any) -> None:
    if dtype is None:
        return

    def cast(value: Any) -> Any:
        return value.to(dtype) if isinstance(value, torch.Tensor) and value.is_floating_point() else value

    def before(_: Any, args: Any, kwargs: Any) -> Any:
        return tree_map(cast, args), tree_map(cast, kwargs)

    module.register_forward_pre_hook(before, with_kwargs=True)
