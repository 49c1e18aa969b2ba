"""Traces steps of a PyTorch model in this process, which is changed for good by that: a copy of the user's."""

# pyright: reportPrivateImportUsage=false

from __future__ import annotations

import traceback
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

import torch

from gpuproof.trace.document import Trace, TraceFailure, write_failure, write_trace
from gpuproof.trace.notes import is_users
from gpuproof.trace.target import TargetGpu


@dataclass(frozen=True)
class Step:
    """What is traced; the members are the arguments of `plan_step`."""

    model: torch.nn.Module
    batch: Any
    optimizer: Any
    loss: Callable[..., Any] | None
    target: Any
    autocast: str | None
    steps: int


class _Done(BaseException):
    """Enough steps were recorded. No `Exception`, which a model might catch."""


def trace_step(step: Step) -> str:
    """The trace of a step, or why there is none, as a document."""
    from gpuproof.trace.pytorch.session import TorchSession

    found: list[Trace | TraceFailure] = []
    torch.set_num_threads(1)  # the threads of OpenMP are not copied with the process

    def complete() -> None:
        found.append(session.finish())
        raise _Done

    batch, target = _tensors(step.batch), _tensors(step.target)
    session = TorchSession(TargetGpu(), steps=step.steps, inference=step.optimizer is None, complete=complete)
    try:
        with session:
            _run(step, batch, target)
    except _Done:
        pass
    except BaseException as error:  # noqa: BLE001 - whatever the model raises is the answer
        found = [_failure(error)]
    result = found[0]
    return write_failure(result) if isinstance(result, TraceFailure) else write_trace(result)


def batch_size(batch: Any) -> int | None:
    """The first dimension of all tensors of a batch that have any; None if they differ."""
    sizes = {leaf.shape[0] for leaf in _leaves(_tensors(batch)) if leaf.dim() > 0}
    return sizes.pop() if len(sizes) == 1 else None


def doubled(batch: Any, size: int) -> Any:
    """A batch with twice the samples; tensors whose first dimension is another stay."""

    def twice(tensor: torch.Tensor) -> torch.Tensor:
        return torch.cat([tensor, tensor]) if tensor.dim() > 0 and tensor.shape[0] == size else tensor

    return _each(_tensors(batch), twice)


def _run(step: Step, batch: Any, target: Any) -> None:
    names = {id(parameter): name for name, parameter in step.model.named_parameters()}
    model = step.model.to("cuda")
    model.train(step.optimizer is not None)
    optimizer = _optimizer(step.optimizer, model, names)
    kind = getattr(torch, step.autocast) if step.autocast is not None else None
    while True:
        here, labels = _each(batch, _to_gpu), _each(target, _to_gpu)
        with (
            torch.autocast("cuda", dtype=kind) if kind is not None else nullcontext(),
            nullcontext() if optimizer is not None else torch.no_grad(),
        ):
            output = _call(model, here)
            loss = None if optimizer is None else _loss(step.loss, output, labels)
        if optimizer is not None:
            optimizer.zero_grad()
            loss.backward()  # type: ignore[union-attr]
            optimizer.step()
        del output, loss, here, labels


def _optimizer(given: Any, model: torch.nn.Module, names: dict[int, str]) -> Any:
    """The optimizer for the moved parameters."""
    if given is None or not isinstance(given, torch.optim.Optimizer):
        return None if given is None else given(model.parameters())
    moved = dict(model.named_parameters())
    groups = [
        {**group, "params": [moved[names[id(parameter)]] for parameter in group["params"]]}
        for group in given.param_groups
    ]
    return type(given)(groups)  # type: ignore[call-arg]


def _call(model: torch.nn.Module, batch: Any) -> Any:
    if isinstance(batch, dict):
        return model(**batch)
    return model(*batch) if isinstance(batch, (tuple, list)) else model(batch)


def _loss(given: Callable[..., Any] | None, output: Any, target: Any) -> torch.Tensor:
    if given is not None:
        return given(output) if target is None else given(output, target)
    own = output.get("loss") if isinstance(output, dict) else getattr(output, "loss", None)
    if own is not None:
        return own
    means = [leaf.float().mean() for leaf in _leaves(output) if leaf.is_floating_point()]
    return torch.stack(means).sum() if len(means) > 1 else means[0]


def _tensors(value: Any) -> Any:
    """A batch whose shapes are tensors."""
    if isinstance(value, (tuple, list)) and value and all(type(item) is int for item in value):
        return torch.zeros(tuple(value))
    if isinstance(value, dict):
        return {name: _tensors(item) for name, item in value.items()}
    return type(value)(map(_tensors, value)) if type(value) in (tuple, list) else value


def _each(value: Any, change: Callable[[torch.Tensor], torch.Tensor]) -> Any:
    from torch.utils._pytree import tree_map

    def change_tensor(leaf: Any) -> Any:
        return change(leaf) if isinstance(leaf, torch.Tensor) else leaf

    return tree_map(change_tensor, value)


def _leaves(value: Any) -> list[torch.Tensor]:
    from torch.utils._pytree import tree_leaves

    return [leaf for leaf in tree_leaves(value) if isinstance(leaf, torch.Tensor)]


def _to_gpu(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.to("cuda")


def _failure(error: BaseException) -> TraceFailure:
    users = [frame for frame in traceback.extract_tb(error.__traceback__) if is_users(frame.filename)]
    place = users[-1] if users else None
    return TraceFailure(
        "script-error",
        f"The step raised {type(error).__name__}: {error}",
        "See whether the step runs here on the CPU.",
        place.filename if place else None,
        place.lineno if place else None,
        "".join((*traceback.format_list(users), *traceback.format_exception_only(type(error), error))),
    )
