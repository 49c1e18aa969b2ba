"""Changes of a script that would make its steps faster: workers of the input pipeline, mixed precision."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from gpuproof.planning.candidates import Candidate
from gpuproof.planning.coefficients import Coefficients
from gpuproof.planning.estimates import StepTime
from gpuproof.planning.time import estimate_step, input_seconds
from gpuproof.planning.time.hardware import tensor_cores
from gpuproof.planning.time.roofline import MATRIX_KINDS
from gpuproof.trace.document import Operator, Trace
from gpuproof.util.humanize import format_seconds, pluralize

_NOTABLE = 1.1
"""How many times faster a step must become."""


@dataclass(frozen=True)
class Advice:
    """A change that makes the steps of a script faster.

    Args:
        code: `input-workers` or `mixed-precision`.
        text: for people.
        gpu: for which the times are.
        seconds: of a step as the script is.
        seconds_then: of a step with the change.
    """

    code: Literal["input-workers", "mixed-precision"]
    text: str
    gpu: str
    seconds: float
    seconds_then: float


def advise(
    trace: Trace, candidate: Candidate, gpus: int, coefficients: Coefficients | None = None
) -> tuple[Advice, ...]:
    """The changes that make a step on a GPU at least 10 % faster.

    Args:
        trace: of what one GPU does.
        candidate: the GPU, with its instances.
        gpus: of the instance.
        coefficients: the built-in ones if None.
    """
    if trace.mode == "serving":
        return ()

    def step(changed: Trace) -> StepTime:
        return estimate_step(
            changed,
            candidate.gpu,
            fraction=candidate.fraction,
            gpus=gpus,
            vcpus=candidate.vcpus,
            coefficients=coefficients,
        )

    now = step(trace)
    if now.bound == "input":
        return (_more_workers(trace, candidate, gpus, now),)
    if trace.precision != "float32" or not tensor_cores(candidate.gpu):
        return ()
    then = step(in_half_precision(trace))
    if now.step.value < _NOTABLE * then.step.value:
        return ()
    return (_mixed_precision(trace, candidate, now, then),)


def in_half_precision(trace: Trace) -> Trace:
    """The trace with matrix products and convolutions in float16, as mixed precision computes them.

    What else mixed precision computes in float16 stays as it is, so that this is the least that it saves.
    """
    return replace(trace, operators=[_halved(operator) for operator in trace.operators])


def _halved(operator: Operator) -> Operator:
    if operator.kind not in MATRIX_KINDS or operator.dtype != "float32":
        return operator
    return replace(operator, dtype="float16", bytes=operator.bytes / 2)


def _more_workers(trace: Trace, candidate: Candidate, gpus: int, now: StepTime) -> Advice:
    is_torch = trace.framework == "torch"
    waiting, needed = now.input_s or 0.0, max(now.gpu_s + now.communication_s, now.launch_s)
    vcpus = candidate.vcpus or 1
    workers = max(1, vcpus // gpus)
    more = replace(trace, input=replace(trace.input, workers=workers))
    then = input_seconds(more, candidate.vcpus, gpus) or 0.0
    helps = waiting > _NOTABLE * max(then, needed)
    on = f"on {pluralize(vcpus, 'vCPU')}" + (f" for {gpus} GPUs" if gpus > 1 else "")
    what = f"num_workers={trace.input.workers}" if is_torch else "the script's tf.data"
    change = f"num_workers={workers}" if is_torch else "map(…, num_parallel_calls=tf.data.AUTOTUNE)"
    slow = (
        f"The input pipeline is the bottleneck: {what} takes {format_seconds(waiting)} per batch, {_a(candidate.name)} "
        f"needs about {format_seconds(needed)}."
    )
    sentences = [slow]
    if helps:
        sentences.append(f"{change} {on}: about {format_seconds(then)}.")
    else:
        sentences.append(f"More workers do not help {on}.")
    if then > _NOTABLE * needed:
        sentences.append(
            "To keep the GPU busy, prepare the data once, before the training, or use more vCPUs for each GPU."
        )
    seconds = now.step.value
    faster = seconds * max(then, needed) / waiting if helps else seconds
    return Advice("input-workers", " ".join(sentences), candidate.name, seconds, faster)


def _mixed_precision(trace: Trace, candidate: Candidate, now: StepTime, then: StepTime) -> Advice:
    how = (
        "torch.autocast"
        if trace.framework == "torch"
        else "keras.mixed_precision.set_global_policy('mixed_float16')"
    )
    saved = 1 - then.step.value / now.step.value
    text = (
        f"The script computes in float32: with mixed precision ({how}), a step on {_a(candidate.name)} "
        f"would take at most about {format_seconds(then.step.value)} in place of "
        f"{format_seconds(now.step.value)} ({saved:.0%} less)."
    )
    return Advice("mixed-precision", text, candidate.name, now.step.value, then.step.value)


def _a(name: str) -> str:
    return f"{'an' if name[:1] in 'AEFHLMNRSX' else 'a'} {name}"
