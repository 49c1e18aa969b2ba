"""The measured step times, each with its trace and GPU."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from bench.plan import mpt, tables

from gpuproof.catalogue import Catalogue, Gpu
from gpuproof.trace.document import Trace, read_trace

_INFINIBAND_GBPS = 1600.0
"""Of the machines on which llm-foundry was measured (8 adapters of 200 Gbit/s for A100, 400 for H100)."""


@dataclass(frozen=True)
class MeasuredStep:
    """A step that somebody measured.

    Args:
        table: where it is from.
        model: by which rows are kept together when they are held out.
        gpu: with the rates of its data sheet.
        trace: of what each GPU does.
        seconds: of one step.
        gpus: of each host.
        hosts: how many.
        network_gbps: between them.
        work: what is the same in rows of other GPUs.
        units: of the work in a step.
    """

    table: str
    model: str
    gpu: Gpu
    trace: Trace
    seconds: float
    gpus: int = 1
    hosts: int = 1
    network_gbps: float | None = None
    work: tuple[object, ...] = ()
    units: float = 1.0

    @property
    def precision(self) -> str:
        """`half` or `float32`."""
        return "half" if self.trace.precision != "float32" else "float32"


def other_gpus() -> dict[str, Gpu]:
    """GPUs that AWS does not offer, but that timm's tables were measured on; NVIDIA's data sheets, dense, FP32 accumulation."""
    known = Catalogue.load().tables.gpus
    rtx_3090 = known["A10G"]._replace(
        name="RTX-3090",
        fp32_tflops=35.6,
        tf32_tflops=35.6,
        fp16_tflops=71.0,
        bf16_tflops=71.0,
        bandwidth=936,
    )
    max_q = known["RTX-PRO-6000"]._replace(
        name="RTX-PRO-6000-Max-Q",
        fp32_tflops=110.0,
        tf32_tflops=219.0,
        fp16_tflops=438.0,
        bf16_tflops=438.0,
        bandwidth=1792,
    )
    return {table.name: table for table in (rtx_3090, max_q)}


def measured_steps(measurements: Path, traces: Path) -> list[MeasuredStep]:
    """All that have a trace.

    Args:
        measurements: the folder of the tables.
        traces: that `bench/plan/traces.py` wrote.
    """
    return [*_timm(measurements, traces), *_convnets(measurements, traces), *_language_models(measurements)]


def _timm(measurements: Path, traces: Path) -> Iterator[MeasuredStep]:
    gpus = other_gpus()
    for kind, table, gpu in (
        ("training", tables.timm_training(measurements), gpus["RTX-3090"]),
        ("inference", tables.timm_inference(measurements), gpus["RTX-PRO-6000-Max-Q"]),
    ):
        for name, row in sorted(table.items()):
            if trace := stored_trace(traces / f"{kind}-{name}.json"):
                yield MeasuredStep(f"timm-{kind}", name, gpu, trace, row.seconds, work=(kind, name))


def _convnets(measurements: Path, traces: Path) -> Iterator[MeasuredStep]:
    gpus = Catalogue.load().tables.gpus
    for row in tables.nvidia_convnets(measurements):
        if trace := stored_trace(traces / f"convnet-{row.mode}-{row.model}-{row.precision}.json"):
            seconds = row.seconds * tables.CONVNET_BATCH
            work = ("nvidia", row.mode, row.model, row.precision)
            yield MeasuredStep(f"nvidia-{row.mode}", row.model, gpus[row.gpu], trace, seconds, work=work)


def _language_models(measurements: Path) -> Iterator[MeasuredStep]:
    gpus = Catalogue.load().tables.gpus
    for row in tables.llm_foundry(measurements):
        if row.model in mpt.SHAPES:
            hosts = max(1, row.gpus // 8)
            network = _INFINIBAND_GBPS * (2 if row.gpu == "H100" else 1)
            step = mpt.trace_of(row)
            yield MeasuredStep(
                *(
                    "llm-foundry",
                    row.model,
                    gpus[row.gpu],
                    step,
                    row.seconds,
                    row.gpus // hosts,
                    hosts,
                    network,
                ),
                work=("llm-foundry", row.model, row.tokens, row.gpus),
                units=float(row.samples * row.microbatches * row.tokens),
            )


def stored_trace(path: Path) -> Trace | None:
    """A trace; None if it was not made or failed."""
    if not path.exists():
        return None
    found = read_trace(path.read_text())
    return found if isinstance(found, Trace) else None
