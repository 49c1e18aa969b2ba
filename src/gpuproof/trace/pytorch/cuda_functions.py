"""What `torch.cuda` and `torch.accelerator` answer about the target GPU."""

# pyright: reportPrivateUsage=false, reportPrivateImportUsage=false, reportUnknownLambdaType=false, reportAttributeAccessIssue=false

from __future__ import annotations

from collections.abc import Callable
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import torch

from gpuproof.trace.pytorch.fake_gpu import GPU
from gpuproof.trace.pytorch.recorder import Recorder
from gpuproof.trace.target import TargetGpu

_ALLOCATED = (
    *("memory_allocated", "max_memory_allocated", "memory_reserved", "max_memory_reserved"),
    *("memory_cached", "max_memory_cached", "device_memory_used"),
)
"""Functions that return bytes in use."""
_MEMORY_ACTIONS = (
    *("empty_cache", "reset_peak_memory_stats", "reset_accumulated_memory_stats", "empty_host_cache"),
    *("reset_max_memory_allocated", "reset_max_memory_cached", "set_per_process_memory_fraction"),
    "_record_memory_history",
)
_ACTIONS = (
    *("init", "_lazy_init", "set_device", "synchronize", "ipc_collect", "set_stream"),
    "set_sync_debug_mode",
)
_SEEDING = ("manual_seed", "manual_seed_all", "seed", "seed_all", "set_rng_state", "set_rng_state_all")
_SENSORS = ("utilization", "memory_usage", "temperature", "power_draw", "clock_rate")
_TYPES = (
    *(torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.complex64, torch.complex128),
    *(torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8, torch.bool),
)
_RANGES = ("range_push", "range_pop", "range_start", "range_end", "mark")


class _Timeline:
    """Stands for a stream or an event: everything is done at once."""

    cuda_stream = 0
    device = GPU

    def __init__(self, *_: Any, **__: Any) -> None:
        pass

    def __enter__(self) -> _Timeline:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def query(self) -> bool:
        return True

    def is_capturing(self) -> bool:
        return False

    def elapsed_time(self, _: Any) -> float:
        return 1.0

    def record_event(self, event: Any = None) -> Any:
        return event or _Timeline()

    def record(self, *_: Any, **__: Any) -> None:
        pass

    wait = wait_event = wait_stream = synchronize = record


class _Runtime:
    """Stands for the CUDA runtime library, whose functions profilers are started with: all succeed."""

    def __getattr__(self, name: str) -> Callable[..., int]:
        return lambda *_, **__: 0


class _MemoryStatistics(dict[str, int]):
    """Statistics of the allocator: bytes are what is allocated now, counts are 0.

    Args:
        allocated: bytes.
    """

    def __init__(self, allocated: int) -> None:
        super().__init__({"allocated_bytes.all.current": allocated, "allocated_bytes.all.peak": allocated})
        self._allocated = allocated

    def __missing__(self, key: str) -> int:
        return self._allocated if "_bytes." in key else 0


def answer_for(target: TargetGpu, recorder: Recorder) -> None:
    """Let `torch.cuda` and `torch.accelerator` answer for a GPU."""
    major, minor = target.capability
    properties = SimpleNamespace(
        name=target.name,
        major=major,
        minor=minor,
        total_memory=target.memory,
        multi_processor_count=target.processors,
        warp_size=32,
        is_integrated=False,
        max_threads_per_multi_processor=2048 if target.capability in ((8, 0), (9, 0)) else 1536,
    )

    def free_and_total(*_: Any, **__: Any) -> tuple[int, int]:
        return max(0, target.memory - recorder.allocated), target.memory

    @contextmanager
    def nothing(*_: Any, **__: Any) -> Any:
        yield

    def no_action(*_: Any, **__: Any) -> None:
        return None

    memory: dict[str, Callable[..., Any]] = {
        **dict.fromkeys(_ALLOCATED, lambda *_, **__: recorder.allocated),
        "memory_stats": lambda *_, **__: _MemoryStatistics(recorder.allocated),
        "memory_summary": lambda *_, **__: "",
        "memory_snapshot": lambda *_, **__: [],
        "mem_get_info": free_and_total,
        "get_memory_info": free_and_total,
        **dict.fromkeys(_MEMORY_ACTIONS, no_action),
    }
    random: dict[str, Callable[..., Any]] = {
        **dict.fromkeys(_SEEDING, no_action),
        "initial_seed": lambda *_, **__: 0,
        "get_rng_state": lambda *_, **__: torch.get_rng_state(),
        "get_rng_state_all": lambda *_, **__: [torch.get_rng_state()],
    }
    _set(
        torch.cuda,
        **dict.fromkeys(_ACTIONS, no_action),
        is_available=lambda *_, **__: True,
        is_initialized=lambda *_, **__: True,
        device_count=lambda *_, **__: target.count,
        current_device=lambda *_, **__: 0,
        is_bf16_supported=lambda *_, **__: major >= 8,
        is_tf32_supported=lambda *_, **__: major >= 8,
        get_device_name=lambda *_, **__: target.name,
        get_device_capability=lambda *_, **__: target.capability,
        get_device_properties=lambda *_, **__: properties,
        get_arch_list=lambda *_, **__: [f"sm_{major}{minor}"],
        get_gencode_flags=lambda *_, **__: "",
        get_sync_debug_mode=lambda *_, **__: 0,
        **dict.fromkeys(_SENSORS, lambda *_, **__: 0),
        Stream=_Timeline,
        Event=_Timeline,
        ExternalStream=_Timeline,
        current_stream=lambda *_, **__: _Timeline(),
        default_stream=lambda *_, **__: _Timeline(),
        stream=nothing,
        StreamContext=nothing,
        device=nothing,
        device_of=nothing,
        can_device_access_peer=lambda *_, **__: True,
        is_current_stream_capturing=lambda *_, **__: False,
        make_graphed_callables=lambda callables, *_, **__: callables,
        cudart=lambda *_, **__: _Runtime(),
        check_error=no_action,
        **memory,
        **random,
    )
    _set(torch.cuda.memory, **memory)
    _set(torch.cuda.random, **random)
    _set(torch.cuda.nvtx, **dict.fromkeys(_RANGES, no_action), range=nothing)
    if hasattr(torch, "accelerator"):
        _set(
            torch.accelerator,
            is_available=lambda *_, **__: True,
            device_count=lambda *_, **__: target.count,
            current_accelerator=lambda *_, **__: torch.device("cuda"),
            **dict.fromkeys(("current_device_index", "current_device_idx"), lambda *_, **__: 0),
            **dict.fromkeys(("set_device_index", "set_device_idx", "set_stream", "synchronize"), no_action),
            current_stream=lambda *_, **__: _Timeline(),
            device_index=nothing,
            get_device_capability=lambda *_, **__: {"supported_dtypes": set(_TYPES)},
            **memory,
        )
        memory_module = getattr(torch.accelerator, "memory", None)
        if memory_module is not None:
            _set(memory_module, **memory)
    torch.backends.cudnn.is_available = lambda *_, **__: True  # type: ignore[method-assign]
    torch.backends.cudnn.version = lambda *_, **__: 90000  # type: ignore[method-assign]


def _set(module: Any, **functions: Any) -> None:
    for name, function in functions.items():
        if hasattr(module, name):
            setattr(module, name, function)
