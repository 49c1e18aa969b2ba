"""What would make a script fit on a GPU: it is traced again with each change; smaller batches follow from the traces that exist."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

from gpuproof.errors import UsageError
from gpuproof.planning.coefficients import Coefficients
from gpuproof.planning.estimates import FitOption, FitOptions
from gpuproof.planning.memory import estimate_memory, fit
from gpuproof.planning.recommendation import GpuPlan
from gpuproof.planning.scaling import scaled, sharded
from gpuproof.planning.script_plan import ScriptPlan
from gpuproof.planning.time import estimate_step
from gpuproof.planning.tracing import NotTraceable, TracedSizes, TraceRequest, trace_script
from gpuproof.trace.document import CATEGORIES, Trace

_TEXTS = {
    "amp": "mixed precision (torch.autocast to float16)",
    "checkpointing": "activation checkpointing of the repeated blocks",
    "amp,checkpointing": "mixed precision and activation checkpointing",
}
_EIGHT_BIT = ("Adam", "AdamW", "SGD", "RMSprop", "Adagrad", "Lion")
"""Optimizers that bitsandbytes has with 8-bit state: https://huggingface.co/docs/bitsandbytes/main/en/optimizers"""
_LEAST_BYTES = 4096 * 4
"""State of fewer than 4096 numbers stays in 32 bits: `min_8bit_size` of the same page."""
_SHARE = (1 + 4 / 256) / 4
"""One byte in place of four, and a factor of four bytes for each block of 256 numbers."""


@dataclass(frozen=True)
class _Changed:
    code: str
    text: str
    trace: Trace


def find_fit_options(
    request: TraceRequest,
    traced: TracedSizes,
    plan: ScriptPlan,
    gpu: str,
    coefficients: Coefficients | None = None,
) -> FitOptions:
    """Trace a script again with changes that need less memory.

    Args:
        request: with which it was traced.
        traced: as it is.
        plan: made from that.
        gpu: name in the catalogue of one that was planned.
        coefficients: with which the plan was made.

    Raises:
        UsageError: it was not planned for this GPU.
    """
    target = next(
        (estimate for estimate in plan.gpus if estimate.candidate.name.upper() == gpu.upper()), None
    )
    if target is None:
        names = ", ".join(gpu.candidate.name for gpu in plan.gpus)
        raise UsageError(f"The script was not planned for a GPU {gpu}.", remedy=f"One of: {names}")
    failed: list[str] = []
    changed = [*_without_tracing(traced, target), *_retraced(request, traced.trace, failed)]
    options = [_option(change, target, plan.conditions.gpus, coefficients) for change in changed]
    options.sort(key=_rank)
    return FitOptions(target.candidate.name, tuple(options), tuple(failed))


def eight_bit(trace: Trace) -> Trace:
    """The trace with optimizer state of one byte in place of four.

    Args:
        trace: with state in float32.
    """
    kind = CATEGORIES.index("optimizer")
    freed = {-event - 1 for event in trace.memory.events if event < 0}
    blocks = [
        (round(size * _SHARE), category)
        if category == kind and size >= _LEAST_BYTES and index not in freed
        else (size, category)
        for index, (size, category) in enumerate(trace.memory.blocks)
    ]
    return replace(trace, memory=replace(trace.memory, blocks=blocks))


def _without_tracing(traced: TracedSizes, target: GpuPlan) -> Iterator[_Changed]:
    trace, batch = traced.trace, target.largest_batch
    if traced.larger is not None and batch is not None and batch < (trace.input.samples or 0):
        yield _Changed("smaller-batch", f"batch size {batch}", scaled(trace, traced.larger, batch))
    if (
        trace.framework != "torch"
        or trace.optimizer not in _EIGHT_BIT
        or trace.model_bytes < 4 * trace.trainable
    ):
        return
    smaller = eight_bit(trace)
    if smaller.memory != trace.memory:
        yield _Changed("8-bit-optimizer", f"8-bit {trace.optimizer} of bitsandbytes", smaller)


def _retraced(request: TraceRequest, trace: Trace, failed: list[str]) -> list[_Changed]:
    """The script with changes that it does not have already."""
    if trace.framework != "torch":
        return []
    names = [
        *(["amp"] if trace.precision == "float32" else []),
        *(["checkpointing"] if trace.mode == "training" and not trace.checkpointing else []),
    ]
    codes = [*names, *([",".join(names)] if len(names) > 1 else [])]
    found: list[_Changed] = []
    with ThreadPoolExecutor(max(1, len(codes))) as pool:
        futures = {code: pool.submit(trace_script, replace(request, change=code)) for code in codes}
        for code, future in futures.items():
            try:
                made = future.result()
            except NotTraceable as error:
                failed.append(f"{_TEXTS[code]}: {error.failure.message.splitlines()[0]}")
                continue
            if "checkpointing" in code and not made.checkpointing:
                failed.append(f"{_TEXTS[code]}: the model has no repeated blocks")
                continue
            found.append(_Changed(code, _TEXTS[code], made))
    return found


def _option(changed: _Changed, target: GpuPlan, gpus: int, coefficients: Coefficients | None) -> FitOption:
    candidate = target.candidate
    gpu, fraction = candidate.gpu, candidate.fraction
    trace = sharded(changed.trace, gpus) if changed.trace.strategy == "fsdp" else changed.trace
    memory = estimate_memory(trace, gpu, fraction=fraction, coefficients=coefficients)
    step = estimate_step(
        trace, gpu, fraction=fraction, gpus=gpus, vcpus=candidate.vcpus, coefficients=coefficients
    )
    fitting = fit(memory, gpu, fraction=fraction)
    return FitOption(changed.code, changed.text, trace.input.samples, memory, fitting, step)


def _rank(option: FitOption) -> tuple[bool, float]:
    return option.fit.fit != "fits", option.step.step.value / (option.batch or 1)
