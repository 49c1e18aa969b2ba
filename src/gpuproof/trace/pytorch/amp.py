"""Autocast and gradient scaling as on a GPU, on fake tensors whose physical device is the CPU."""

# pyright: reportPrivateUsage=false, reportPrivateImportUsage=false, reportUnknownLambdaType=false, reportAttributeAccessIssue=false

from __future__ import annotations

from typing import Any

import torch

from gpuproof.trace.pytorch.fake_gpu import FakeGpu


class Precision:
    """Which precision the script chose.

    Attributes:
        autocast: the type of `torch.autocast` on the GPU; None if it was not used.
    """

    def __init__(self) -> None:
        self.autocast: Any = None


def emulate_autocast(gpu: FakeGpu, precision: Precision) -> None:
    """Let `torch.autocast("cuda")` act as that of the CPU, plus CUDA's own list of operators in float32."""
    autocast = torch.amp.autocast_mode.autocast
    original_init, original_enter, original_exit = autocast.__init__, autocast.__enter__, autocast.__exit__
    is_enabled, get_dtype = torch.is_autocast_enabled, torch.get_autocast_dtype

    def init(
        self: Any, device_type: str, dtype: Any = None, enabled: bool = True, cache_enabled: Any = None
    ) -> None:
        self._for_gpu = device_type == "cuda"
        if self._for_gpu:
            device_type, dtype = "cpu", dtype or torch.float16
            if enabled and dtype in (torch.float16, torch.bfloat16):
                precision.autocast = dtype
        original_init(self, device_type, dtype, enabled, cache_enabled)

    def enter(self: Any) -> Any:
        self._before = gpu.in_autocast
        if self._for_gpu:
            gpu.in_autocast = bool(self._enabled)
        return original_enter(self)

    def exit(self: Any, *error: Any) -> Any:
        gpu.in_autocast = self._before
        return original_exit(self, *error)

    autocast.__init__, autocast.__enter__, autocast.__exit__ = init, enter, exit  # type: ignore[method-assign]
    torch.is_autocast_enabled = lambda device="cuda": is_enabled("cpu" if device == "cuda" else device)  # type: ignore[assignment]
    torch.get_autocast_dtype = lambda device: get_dtype("cpu" if device == "cuda" else device)  # type: ignore[assignment]
    torch.get_autocast_gpu_dtype = lambda: get_dtype("cpu")  # type: ignore[assignment]


def emulate_gradient_scaling() -> None:
    """Let a GradScaler find no infinite gradients: what it decides depends on values."""
    scaler = torch.amp.grad_scaler.GradScaler

    def unscale(self: Any, optimizer: Any, inverse: Any, found: Any, allow_fp16: bool) -> dict[Any, Any]:
        gradients = [
            parameter.grad
            for group in optimizer.param_groups
            for parameter in group["params"]
            if parameter.grad is not None
        ]
        if gradients:
            torch._foreach_mul_(gradients, 1.0)
        return {torch.device("cuda", 0): torch.zeros(())}

    def step(self: Any, optimizer: Any, state: Any, *args: Any, **kwargs: Any) -> Any:
        return optimizer.step(*args, **kwargs)

    def update(self: Any, new_scale: Any = None) -> None:
        from collections import defaultdict

        from torch.amp.grad_scaler import _refresh_per_optimizer_state

        self._per_optimizer_states = defaultdict(_refresh_per_optimizer_state)

    scaler._unscale_grads_ = unscale  # type: ignore[method-assign]
    scaler._maybe_opt_step = step  # type: ignore[method-assign]
    scaler.update = update  # type: ignore[method-assign]
    scaler.get_scale = lambda self: 65536.0  # type: ignore[method-assign]
