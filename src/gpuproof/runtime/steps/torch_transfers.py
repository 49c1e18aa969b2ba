"""Times copies to the GPU, calls that wait for it, and checkpoints of PyTorch."""

from __future__ import annotations

import functools
import sys
from time import perf_counter
from types import ModuleType
from typing import Any, Callable

from gpuproof.runtime.steps.recorder import Recorder, caller
from gpuproof.runtime.steps.torch_loop import TorchLoop

_WAITING = {
    "item": ".item()",
    "tolist": ".tolist()",
    "cpu": ".cpu()",
    "numpy": ".numpy()",
    "__float__": "float()",
    "__int__": "int()",
    "__bool__": "bool()",
}
"""Methods of a tensor that wait until the GPU has computed it."""
_WITH_ARGUMENTS = ("cpu", "numpy")


def install(torch: ModuleType, loop: TorchLoop) -> None:
    """Replace the methods of tensors, `cuda.synchronize` and `torch.save`."""
    for name in ("to", "cuda", "copy_"):
        _replace_copy(torch, loop, name)
    for name, what in _WAITING.items():
        _replace_waiting(torch, loop, name, what)
    _replace_synchronize(torch, loop)
    replace_checkpoint(loop.recorder, torch, "save", "torch.save()")
    checkpoints = sys.modules.get("torch.distributed.checkpoint")
    if checkpoints is not None:
        replace_checkpoint(loop.recorder, checkpoints, "save", "torch.distributed.checkpoint.save()")


def replace_checkpoint(recorder: Recorder, owner: Any, name: str, what: str) -> None:
    """Let a function or method count as a checkpoint."""
    replace_timed(recorder, owner, name, "checkpoint", what)


def replace_timed(recorder: Recorder, owner: Any, name: str, phase: str, what: str) -> None:
    """Let a function or method count as a phase, and the script's line that calls it explain it."""
    original = getattr(owner, name, None)
    if original is None:
        return

    @functools.wraps(original)
    def timed(*args: Any, **kwargs: Any) -> Any:
        if not recorder.active or recorder.inside(phase):
            return original(*args, **kwargs)
        recorder.begin(phase)
        began = perf_counter()
        try:
            return original(*args, **kwargs)
        finally:
            recorder.end(phase)
            recorder.locate(phase, what, caller(), seconds=perf_counter() - began)

    setattr(owner, name, timed)
    # Where it is defined, which is where pickle looks for it.
    home = sys.modules.get(getattr(original, "__module__", None) or "")
    if home is not None and getattr(home, name, None) is original:
        setattr(home, name, timed)


def _replace_method(torch: Any, name: str, original: Any, replacement: Callable[..., Any]) -> None:
    method = functools.wraps(original)(replacement)
    # As pickle finds it, also where there are no hooks.
    method.__module__, method.__qualname__ = "torch", f"Tensor.{name}"
    setattr(torch.Tensor, name, method)


def _replace_copy(torch: Any, loop: TorchLoop, name: str) -> None:
    """Time copies of a tensor from the host to a GPU."""
    recorder, original = loop.recorder, getattr(torch.Tensor, name)
    goes_to_gpu = {"to": _to_gpu(torch), "copy_": _copies_to_gpu, "cuda": _is_on_host}[name]

    def copy(self: Any, *args: Any, **kwargs: Any) -> Any:
        if not loop.uses_cuda or not recorder.active or not recorder.is_training_thread():
            return original(self, *args, **kwargs)
        source = recorder.guard(name, goes_to_gpu, self, args, kwargs)
        if source is None or recorder.inside("copy"):
            return original(self, *args, **kwargs)
        recorder.begin("copy")
        began = perf_counter()
        try:
            return original(self, *args, **kwargs)
        finally:
            seconds = perf_counter() - began
            recorder.end("copy")
            settings = recorder.guard(name, _copy_settings, source)
            recorder.locate("copy", f".{name}()", caller(), settings, seconds)

    _replace_method(torch, name, original, copy)


def _to_gpu(torch: Any) -> Callable[[Any, Any, Any], Any]:
    """The source of a call of `Tensor.to` from the host to a GPU, or `None`."""

    def is_gpu(target: Any) -> bool:
        if isinstance(target, torch.device):
            return target.type == "cuda"
        if isinstance(target, str):
            return target.startswith("cuda")
        return isinstance(target, int) or (isinstance(target, torch.Tensor) and target.is_cuda)

    def source(tensor: Any, args: Any, kwargs: Any) -> Any:
        if tensor.is_cuda:
            return None
        target = kwargs.get("device", kwargs.get("other")) if kwargs else None
        return tensor if is_gpu(args[0] if args and target is None else target) else None

    return source


def _copies_to_gpu(tensor: Any, args: Any, kwargs: Any) -> Any:
    source = args[0] if args else kwargs.get("src", kwargs.get("other"))
    return source if tensor.is_cuda and source is not None and not source.is_cuda else None


def _is_on_host(tensor: Any, args: Any, kwargs: Any) -> Any:
    return None if tensor.is_cuda else tensor


def _copy_settings(source: Any) -> dict[str, Any]:
    return {"pinned": source.is_pinned(), "bytes": source.numel() * source.element_size()}


def _replace_waiting(torch: Any, loop: TorchLoop, name: str, what: str) -> None:
    """Note where a script waits for the GPU; on the CPU, where it would."""
    recorder, original = loop.recorder, getattr(torch.Tensor, name)

    def watched(self: Any, *args: Any, **kwargs: Any) -> Any:
        if not recorder.active or not loop.may_wait(self, caller(2)):
            return original(self, *args, **kwargs)
        began = perf_counter()
        try:
            return original(self, *args, **kwargs)
        finally:
            loop.on_wait(what, caller(2), perf_counter() - began)

    def with_arguments(self: Any, *args: Any, **kwargs: Any) -> Any:
        return watched(self, *args, **kwargs) if loop.reads_values else original(self, *args, **kwargs)

    # Optimizers read the number of their steps for each parameter, on the CPU.
    def without(self: Any) -> Any:
        return watched(self) if loop.reads_values else original(self)

    replacement = with_arguments if name in _WITH_ARGUMENTS else without
    _replace_method(torch, name, original, replacement)


def _replace_synchronize(torch: Any, loop: TorchLoop) -> None:
    recorder, original = loop.recorder, torch.cuda.synchronize

    @functools.wraps(original)
    def synchronize(*args: Any, **kwargs: Any) -> Any:
        began = perf_counter()
        try:
            return original(*args, **kwargs)
        finally:
            if recorder.active and loop.uses_cuda:
                loop.on_wait("torch.cuda.synchronize()", caller(), perf_counter() - began)

    torch.cuda.synchronize = synchronize
