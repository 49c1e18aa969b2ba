"""What `torch.cuda` and `torch.accelerator` answer about the target GPU."""

# pyright: reportPrivateUsage=false, reportPrivateImportUsage=false, reportUnknownLambdaType=false, reportAttributeAccessIssue=false

from __future__ import annotations

from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import torch

from gpuproof.trace.pytorch.fake_gpu import GPU
from gpuproof.trace.pytorch.recorder import Recorder
from gpuproof.trace.target import TargetGpu


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

    def record(self, *_: Any) -> None:
        pass

    wait = wait_event = wait_stream = synchronize = record


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

    def allocated(*_: Any) -> int:
        return recorder.allocated

    @contextmanager
    def nothing(*_: Any, **__: Any) -> Any:
        yield

    def no_action(*_: Any, **__: Any) -> None:
        return None

    _set(
        torch.cuda,
        is_available=lambda: True,
        is_initialized=lambda: True,
        init=no_action,
        _lazy_init=no_action,
        device_count=lambda: target.count,
        current_device=lambda: 0,
        set_device=no_action,
        synchronize=no_action,
        empty_cache=no_action,
        ipc_collect=no_action,
        manual_seed=no_action,
        manual_seed_all=no_action,
        seed=no_action,
        seed_all=no_action,
        initial_seed=lambda: 0,
        get_rng_state=lambda *_: torch.get_rng_state(),
        get_rng_state_all=lambda: [torch.get_rng_state()],
        set_rng_state=no_action,
        set_rng_state_all=no_action,
        is_bf16_supported=lambda *_, **__: major >= 8,
        is_tf32_supported=lambda: major >= 8,
        get_device_name=lambda *_: target.name,
        get_device_capability=lambda *_: target.capability,
        get_device_properties=lambda *_: properties,
        get_arch_list=lambda: [f"sm_{major}{minor}"],
        memory_allocated=allocated,
        max_memory_allocated=allocated,
        memory_reserved=allocated,
        max_memory_reserved=allocated,
        memory_cached=allocated,
        memory_stats=lambda *_: {"allocated_bytes.all.current": recorder.allocated},
        memory_summary=lambda *_, **__: "",
        reset_peak_memory_stats=no_action,
        reset_max_memory_allocated=no_action,
        set_per_process_memory_fraction=no_action,
        mem_get_info=lambda *_: (max(0, target.memory - recorder.allocated), target.memory),
        utilization=lambda *_: 0,
        Stream=_Timeline,
        Event=_Timeline,
        ExternalStream=_Timeline,
        current_stream=lambda *_: _Timeline(),
        default_stream=lambda *_: _Timeline(),
        stream=nothing,
        set_stream=no_action,
        device=nothing,
        device_of=nothing,
        can_device_access_peer=lambda *_: True,
        is_current_stream_capturing=lambda: False,
    )
    _set(
        torch.cuda.nvtx,
        range_push=no_action,
        range_pop=no_action,
        mark=no_action,
        range=nothing,
    )
    if hasattr(torch, "accelerator"):
        _set(
            torch.accelerator,
            is_available=lambda: True,
            device_count=lambda: target.count,
            current_accelerator=lambda *_, **__: torch.device("cuda"),
            current_device_index=lambda: 0,
            set_device_index=no_action,
            synchronize=no_action,
            current_stream=lambda *_: _Timeline(),
        )
    torch.backends.cudnn.is_available = lambda: True  # type: ignore[method-assign]
    torch.backends.cudnn.version = lambda: 90000  # type: ignore[method-assign]


def _set(module: Any, **functions: Any) -> None:
    for name, function in functions.items():
        if hasattr(module, name):
            setattr(module, name, function)
