"""Times what a script computes with PyTorch: calls of models, backward passes and steps of optimizers."""

from __future__ import annotations

import functools
import sys
from types import ModuleType
from typing import Any, Callable

from gpuproof.runtime.steps.torch_loop import TorchLoop

_HOOKED = "_gpuproof_hooked"


def install(torch: ModuleType, loop: TorchLoop) -> None:
    """Replace `Module.__call__`, `autograd.backward` and the steps of all optimizers."""
    _replace_call(torch, loop)
    _replace_backward(torch, loop)
    _hook_optimizers(torch, loop)


class _Outermost:
    """Whether the script is in a model: only its outermost call counts."""

    inside = False


def _replace_call(torch: Any, loop: TorchLoop) -> None:
    recorder, module_class = loop.recorder, torch.nn.Module
    call = module_class.__call__
    state = _Outermost()
    is_compiling: Callable[[], bool] = getattr(
        getattr(torch, "compiler", None), "is_compiling", lambda: False
    )

    @functools.wraps(call)
    def __call__(self: Any, *args: Any, **kwargs: Any) -> Any:
        if state.inside or is_compiling() or not recorder.active or not recorder.is_training_thread():
            return call(self, *args, **kwargs)
        state.inside = True
        phase = recorder.guard("forward", loop.on_forward, self) or "forward"
        recorder.begin(phase, is_event=False)
        try:
            return call(self, *args, **kwargs)
        finally:
            recorder.end(phase)
            state.inside = False

    __call__.__qualname__ = "Module.__call__"  # as pickle finds it
    module_class.__call__ = __call__


def _replace_backward(torch: Any, loop: TorchLoop) -> None:
    recorder, autograd = loop.recorder, torch.autograd
    backward = autograd.backward

    @functools.wraps(backward)
    def replacement(tensors: Any, *args: Any, **kwargs: Any) -> Any:
        if not recorder.active or recorder.inside("backward"):
            return backward(tensors, *args, **kwargs)
        recorder.guard("backward", loop.on_backward, tensors)
        recorder.begin("backward")
        try:
            return backward(tensors, *args, **kwargs)
        finally:
            recorder.end("backward")

    autograd.backward = replacement


def _hook_optimizers(torch: Any, loop: TorchLoop) -> None:
    recorder = loop.recorder
    optimizers: Any = sys.modules["torch.optim.optimizer"]  # torch.optim has no attribute for it

    def before(optimizer: Any, args: Any, kwargs: Any) -> None:
        recorder.begin("optimizer")
        loop.reads_values = False

    def after(optimizer: Any, args: Any, kwargs: Any) -> None:
        recorder.end("optimizer")
        loop.reads_values = True
        recorder.guard("optimizer", loop.on_optimizer, optimizer)

    if hasattr(optimizers, "register_optimizer_step_post_hook"):
        optimizers.register_optimizer_step_pre_hook(before)
        optimizers.register_optimizer_step_post_hook(after)
        return
    # PyTorch before 2.1.
    make = optimizers.Optimizer.__init__

    @functools.wraps(make)
    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
        make(self, *args, **kwargs)
        step = type(self).step
        if not getattr(step, _HOOKED, False):
            type(self).step = _timed_step(step, before, after)

    optimizers.Optimizer.__init__ = __init__


def _timed_step(
    step: Callable[..., Any], before: Callable[..., None], after: Callable[..., None]
) -> Callable[..., Any]:
    @functools.wraps(step)
    def timed(self: Any, *args: Any, **kwargs: Any) -> Any:
        before(self, args, kwargs)
        result = step(self, *args, **kwargs)
        after(self, args, kwargs)
        return result

    setattr(timed, _HOOKED, True)
    return timed
