"""A handler's functions, called as SageMaker calls them: by position, with the context if they take one."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Iterator
from dataclasses import dataclass
from types import ModuleType
from typing import Any, Callable

from gpuproof.serve.errors import LoadError

ARGUMENTS = {
    "pre_model_fn": ("model_dir",),
    "model_fn": ("model_dir",),
    "model_warmup_fn": ("model_dir", "model"),
    "input_fn": ("body", "content_type"),
    "predict_fn": ("data", "model"),
    "output_fn": ("prediction", "accept"),
    "transform_fn": ("model", "body", "content_type", "accept"),
    "batch_fn": ("data", "model"),
    "input_handler": ("data",),
    "output_handler": ("response",),
    "handler": ("data",),
}
"""Arguments of each function before the context. Sources: sagemaker_inference/transformer.py; for the last three, which
always take the context, the README of sagemaker-tensorflow-serving-container. `batch_fn` is an extension of GPUproof."""

TENSORFLOW_SERVING = ("input_handler", "output_handler", "handler")
_CONTEXT_NAMES = ("context", "ctx")


@dataclass(frozen=True)
class Hook:
    """A function of a handler."""

    function: Callable[..., Any]
    takes_context: bool

    def __call__(self, *arguments: Any, context: Any = None) -> Any:
        result = self.function(*arguments, context) if self.takes_context else self.function(*arguments)
        if inspect.isawaitable(result):
            return _await(result)
        if inspect.isasyncgen(result):
            return _drain(result)
        return result


@dataclass(frozen=True)
class Hooks:
    """The functions of a handler."""

    found: dict[str, Hook]
    batch: bool = False
    """Whether it opted into batches: `batch = True` in the module or on `predict_fn`."""
    max_batch_size: int | None = None
    """The module's `max_batch_size`."""

    def get(self, name: str) -> Hook | None:
        return self.found.get(name)

    def __contains__(self, name: str) -> bool:
        return name in self.found

    @property
    def takes_context(self) -> bool:
        """Whether any function takes the context."""
        return any(hook.takes_context for hook in self.found.values())


def read_hooks(module: ModuleType | None) -> Hooks:
    """Read the functions of a handler.

    Raises:
        LoadError: a function does not take the arguments that SageMaker passes, or functions exclude each other.
    """
    if module is None:
        return Hooks({})
    found: dict[str, Hook] = {}
    for name, arguments in ARGUMENTS.items():
        function = getattr(module, name, None)
        if callable(function):
            found[name] = _hook(name, function, arguments, _location(module))
    parts = [name for name in ("input_fn", "predict_fn", "output_fn") if name in found]
    if "transform_fn" in found and parts:
        raise LoadError(
            f"{_location(module)} has transform_fn and {', '.join(parts)}: transform_fn replaces them, so they "
            "would never be called.",
            remedy="Keep either transform_fn or the other functions.",
        )
    if ("input_handler" in found) != ("output_handler" in found):
        missing = "output_handler" if "input_handler" in found else "input_handler"
        raise LoadError(
            f"{_location(module)} has no {missing}: AWS's TensorFlow Serving container requires both functions, or only handler."
        )
    predict = getattr(module, "predict_fn", None)
    batch = getattr(module, "batch", None) is True or getattr(predict, "batch", None) is True
    size = getattr(module, "max_batch_size", None)
    return Hooks(found, batch or "batch_fn" in found, size if isinstance(size, int) and size > 0 else None)


def has_tensorflow_handlers(hooks: Hooks) -> bool:
    """Whether the handler is written for AWS's TensorFlow Serving container, and has no `model_fn`."""
    return any(name in hooks for name in TENSORFLOW_SERVING) and "model_fn" not in hooks


def _hook(name: str, function: Callable[..., Any], arguments: tuple[str, ...], place: str) -> Hook:
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        return Hook(function, takes_context=name in TENSORFLOW_SERVING)
    positional = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    any_number = any(p.kind == p.VAR_POSITIONAL for p in parameters)
    required = [p for p in positional if p.default is p.empty]
    count = len(arguments)
    if len(required) > count + 1 or (len(positional) < count and not any_number):
        signature = ", ".join(p.name for p in positional)
        raise LoadError(
            f"{place}: {name}({signature}) cannot be called as SageMaker calls it: "
            f"{name}({', '.join(arguments)}) or {name}({', '.join((*arguments, 'context'))}).",
            remedy=f"Give {name} these parameters.",
        )
    further = positional[count : count + 1]
    # An additional parameter with a default is the context only if named so, unlike `model_fn(model_dir, device=None)`.
    takes = any(p.default is p.empty or p.name.strip("_").lower() in _CONTEXT_NAMES for p in further)
    return Hook(function, takes or (any_number and name in TENSORFLOW_SERVING))


def _location(module: ModuleType) -> str:
    return getattr(module, "__file__", None) or module.__name__


_loop: asyncio.AbstractEventLoop | None = None


def _event_loop() -> asyncio.AbstractEventLoop:
    """The event loop of all `async` functions in a worker, so that they can keep clients open between calls."""
    global _loop
    if _loop is None or _loop.is_closed():
        _loop = asyncio.new_event_loop()
    return _loop


def _await(awaitable: Any) -> Any:
    async def wait() -> Any:
        return await awaitable

    return _event_loop().run_until_complete(wait())


def _drain(pieces: Any) -> Iterator[Any]:
    loop, end = _event_loop(), object()

    async def step() -> Any:
        try:
            return await pieces.__anext__()
        except StopAsyncIteration:
            return end

    try:
        while (piece := loop.run_until_complete(step())) is not end:
            yield piece
    finally:
        loop.run_until_complete(pieces.aclose())
