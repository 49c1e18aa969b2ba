"""`--full`: what each GPU really gives, against its data sheet."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tarmac.catalogue import Gpu
from tarmac.doctor.check import Check, Layer
from tarmac.doctor.machine import Machine
from tarmac.doctor.stack import compute, compute_kernel
from tarmac.doctor.stack.compute_reading import Rate
from tarmac.doctor.stack.framework_reading import model_of
from tarmac.doctor.stack.words import on_gpu
from tarmac.findings import Finding, Severity

ENOUGH = 0.7
"""Share of the data sheet's figure below which a card is told to be slow."""
_SMALL_POWER_W = 75.0
"""Cards that live on the slot's power alone, such as T4 and L4, cannot hold their peak."""


@dataclass(frozen=True)
class Measured:
    """One rate of one GPU beside what its data sheet says.

    Args:
        promised: in the rate's own unit; `None` where nobody knows.
        power_limit_w: watts that the card may draw.
    """

    rate: Rate
    name: str
    promised: float | None
    power_limit_w: float | None = None

    @property
    def share(self) -> float | None:
        """Of what is promised, from 0 to 1 and above."""
        return self.rate.value / self.promised if self.promised else None


def read(machine: Machine) -> tuple[Measured, ...] | None:
    """What the probes measured; `None` unless that was asked for."""
    if not machine.full:
        return None
    given = (compute.read_torch(machine), compute.read_tensorflow(machine), compute_kernel.read(machine))
    readings = [one.compute if isinstance(one, compute_kernel.Reading) else one for one in given if one]
    best: dict[tuple[int, str], Rate] = {}
    for rate in (rate for reading in readings for rate in reading.rates):
        known = best.get((rate.gpu, rate.what))
        if known is None or rate.value > known.value:
            best[rate.gpu, rate.what] = rate
    limits = {gpu.index: gpu.power_limit_w for gpu in machine.nvml.gpus}
    models = {device.index: model_of(machine.catalogue, device) for device in machine.cuda.devices}
    names = {device.index: device.name for device in machine.cuda.devices}
    return tuple(
        Measured(rate, names.get(gpu, f"GPU {gpu}"), promised_by(models.get(gpu), rate), limits.get(gpu))
        for (gpu, _), rate in sorted(best.items())
    )


def promised_by(model: Gpu | None, rate: Rate) -> float | None:
    """The data sheet's dense figure for a rate."""
    if model is None:
        return None
    if rate.what == "memory":
        return model.bandwidth
    if rate.what == "compute":
        return {
            "float32": model.fp32_tflops,
            "float16": model.fp16_tflops,
            "bfloat16": model.bf16_tflops,
        }.get(rate.dtype or "")
    return None


def evaluate(measured: tuple[Measured, ...]) -> Iterator[Finding]:
    """D510 a card that gives less than 70 % of its data sheet."""
    for one in measured:
        if one.share is None or one.share >= ENOUGH:
            continue
        small = one.rate.what == "compute" and (one.power_limit_w or 1000) <= _SMALL_POWER_W
        yield Finding(
            "D510",
            Severity.NOTE if small else Severity.WARNING,
            f"{one.name} gives {in_words(one)}, {one.share:.0%} of its data sheet's {one.promised:g}"
            + (
                f": its {one.power_limit_w:.0f} W do not hold the peak, as is usual for this card."
                if small
                else "."
            ),
            (f"measured: {in_words(one)}", f"data sheet: {one.promised:g}"),
            "Look whether somebody else uses the GPU, and at clocks, power and temperature: nvidia-smi -q -d PERFORMANCE"
            if not small
            else "Nothing need be done; reckon with the measured rate.",
            on_gpu(one.rate.gpu, one.name),
        )


def say(measured: tuple[Measured, ...]) -> str | None:
    """`GPU 0: 795 TFLOP/s in bfloat16 (80 %), memory 4100 GB/s (85 %), host to device 55 GB/s`."""
    by_gpu: dict[int, list[str]] = {}
    for one in measured:
        share = f" ({one.share:.0%})" if one.share else ""
        by_gpu.setdefault(one.rate.gpu, []).append(in_words(one) + share)
    return "; ".join(f"GPU {gpu}: {', '.join(words)}" for gpu, words in by_gpu.items()) or None


def in_words(one: Measured) -> str:
    """A rate for a person."""
    rate = one.rate
    if rate.what == "compute":
        return f"{rate.value:.0f} TFLOP/s in {rate.dtype}"
    return f"{rate.what} {rate.value:.0f} GB/s"


CHECK = Check("rates against the data sheet", Layer.COMPUTE, read, evaluate, quick=False, say=say)
