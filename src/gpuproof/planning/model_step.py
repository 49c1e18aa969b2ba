"""Plans a step of a model that is in memory: `gpuproof.plan_step(model, batch, torch.optim.AdamW)`."""

from __future__ import annotations

import os
import select
import signal
import sys
import tempfile
from collections.abc import Callable
from dataclasses import replace
from io import FileIO
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from gpuproof.catalogue import Catalogue
from gpuproof.catalogue.model import ServiceName
from gpuproof.errors import UsageError
from gpuproof.planning.history.user_coefficients import user_coefficients
from gpuproof.planning.recommendation import Conditions
from gpuproof.planning.result import PlanResult
from gpuproof.planning.script_plan import make_plan
from gpuproof.planning.tracing import NotTraceable, TracedSizes
from gpuproof.trace.document import Trace, TraceFailure, read_trace

if TYPE_CHECKING:
    from gpuproof.planning.model_trace import Step

_REMEDY = "See whether the step runs here on the CPU; `gpuproof.plan` takes a script in its place."


def plan_step(
    model: Any,
    batch: Any,
    optimizer: Any = None,
    *,
    loss: Callable[..., Any] | None = None,
    target: Any = None,
    autocast: Literal["float16", "bfloat16"] | None = None,
    gpus: int = 1,
    region: str = "us-east-1",
    on: ServiceName | None = None,
    steps: int = 3,
    timeout: float = 300.0,
) -> PlanResult:
    """Estimate memory and time of a training step of a PyTorch model on each GPU that AWS offers.

    The step is traced in a copy of this process (`fork`), on tensors without memory: the model is not changed, and no GPU is used.

    Args:
        model: a `torch.nn.Module` on the CPU.
        batch: what it is called with: a tensor, a tuple of positional or a dict of keyword arguments. A tuple of numbers in place of
            a tensor is the shape of one with float32. The first dimension is the batch size.
        optimizer: of the model's parameters, or a class or function that makes one from them; None for inference.
        loss: called with the model's output, and with `target` if there is one; by default the output's `loss`, itself if it
            is one number, or its mean.
        target: tensors that only the loss needs, such as labels.
        autocast: run the model in mixed precision.
        gpus: of the instances that are planned.
        region: whose prices count.
        on: only this service; both if not given.
        steps: to trace.
        timeout: seconds for each of two traces.

    Returns:
        The plan for 1000 such steps; `gpus` has memory, fit, largest batch size and time of a step.

    Raises:
        NotTraceable: the step fails; the message has the line.
        UsageError: this is no model of PyTorch, or it is on a GPU.
    """
    if steps < 1 or gpus < 1 or timeout <= 0:
        raise UsageError("steps, gpus and timeout must be positive.")
    _require_torch(model)
    from gpuproof.planning.model_trace import Step, batch_size, doubled  # imports torch

    step = Step(model, batch, optimizer, loss, target, autocast, steps)
    first = _trace(step, timeout)
    size = batch_size(batch)
    if size is None:
        traced = TracedSizes(first, None, "the batch's tensors have no first dimension in common")
    else:
        first = _sized(first, size)
        larger = replace(step, batch=doubled(batch, size), target=doubled(target, size))
        try:
            traced = TracedSizes(first, _sized(_trace(larger, timeout), 2 * size))
        except NotTraceable as error:
            reason = f"the step failed with twice the batch size: {error.failure.message}"
            traced = TracedSizes(first, None, reason)
    conditions = Conditions(region=region, service=on, gpus=gpus)
    plan = make_plan(Catalogue.load(), traced, conditions, user_coefficients())
    return PlanResult.of(plan, type(model).__name__)


def _require_torch(model: Any) -> None:
    torch = sys.modules.get("torch")
    if torch is None or not isinstance(model, torch.nn.Module):
        raise UsageError(
            f"plan_step takes a torch.nn.Module, not {type(model).__module__}.{type(model).__qualname__}.",
            remedy="`gpuproof.plan` takes a script.",
        )
    if any(parameter.device.type != "cpu" for parameter in model.parameters()):
        raise UsageError("The model is not on the CPU.", remedy="plan_step(model.cpu(), …)")


def _sized(trace: Trace, samples: int) -> Trace:
    return replace(trace, input=replace(trace.input, samples=samples))


def _trace(step: Step, timeout: float) -> Trace:
    """Trace a step in a copy of this process, which can hang or crash without harm."""
    from gpuproof.planning.model_trace import trace_step

    with tempfile.TemporaryDirectory(prefix="gpuproof-plan-") as folder:
        output = Path(folder) / "trace.json"
        sys.stdout.flush()
        sys.stderr.flush()
        # The copy's end of the pipe is closed when it ends, however it ends.
        ended, alive = os.pipe()
        child = os.fork()
        if child == 0:
            try:
                output.write_text(trace_step(step))
            finally:
                # Not the copy of whatever this process would do at its end.
                os._exit(0)
        os.close(alive)
        with FileIO(ended) as pipe:
            code = _wait(child, pipe, timeout)
        found = read_trace(output.read_text()) if output.exists() else _crash(code, timeout)
    if isinstance(found, TraceFailure):
        raise NotTraceable(found)
    return found


def _wait(child: int, pipe: FileIO, timeout: float) -> int | None:
    """The exit code, negative for a signal; None if the time was not sufficient.

    Args:
        child: the process.
        pipe: readable when the process has ended.
        timeout: seconds.
    """
    try:
        readable, _, _ = select.select([pipe], [], [], timeout)
    except BaseException:
        _end(child)
        raise
    if not readable:
        _end(child)
        return None
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def _end(child: int) -> None:
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)


def _crash(code: int | None, timeout: float) -> TraceFailure:
    if code is None:
        return TraceFailure("timeout", f"The step was not traced within {timeout:g} s.", _REMEDY)
    if code < 0:
        text = f"The tracing process crashed with {signal.Signals(-code).name}."
        return TraceFailure("crash", text, _REMEDY)
    return TraceFailure("crash", "The tracing process left no trace.", _REMEDY)
