"""Measures the rates of every GPU and compares them with its data sheet and PCIe link."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from gpuproof.doctor.checks.benchmark.data_sheet import DataSheet, data_sheet, link_gb_s
from gpuproof.doctor.checks.gpu_state.cuda_visible_devices import parse_visible_devices
from gpuproof.doctor.machine import Machine
from gpuproof.doctor.readings.gpus import read_gpus
from gpuproof.doctor.readings.instance_identity import read_instance_identity
from gpuproof.findings import Finding, Location, Severity
from gpuproof.gpu.checks.states import GpuState
from gpuproof.gpu.probe_process import Answer, ask, own_environment

TIMEOUT_SECONDS = 540.0
"""For all GPUs together; each takes about ten seconds."""
HEALTHY_SHARE = 0.7
"""Share of the data sheet that a healthy GPU reaches with large matrices and long vectors."""
_CAPPED_SHARE = 0.6
"""The same of arithmetic at the power limit: a sound H100 of 700 W computes 690 of 989 TFLOP/s in FP16."""
_POWER_CAP = "power cap"
_SMALL_POWER_W = 75.0
"""GPUs powered only by the slot, such as T4 and L4, cannot sustain their peak rate."""
_KINDS = (
    ("fp32", "fp32_tflops"),
    ("tf32", "tf32_tflops"),
    ("fp16", "fp16_tflops"),
    ("bf16", "bf16_tflops"),
)


@dataclass(frozen=True)
class MeasuredGpu:
    """Measurements of one GPU.

    Args:
        label: `GPU 0 (NVIDIA A10G)`.
        rates: `memory_gb_s`, `fp16_tflops` and so on, by name.
        pinned: whether the host-to-device rate was measured with pinned memory: only that shows the link's rate.
        sheet: its data sheet; `None` if unknown.
        width: number of PCIe lanes.
        power_limit_w: power limit in watts.
        skipped: why it was not measured, or only in part.
    """

    label: str
    rates: tuple[tuple[str, float], ...] = ()
    pinned: bool = False
    sheet: DataSheet | None = None
    throttle: tuple[str, ...] = ()
    generation: int | None = None
    generation_max: int | None = None
    width: int | None = None
    power_limit_w: float | None = None
    skipped: str | None = None


@dataclass(frozen=True)
class Reading:
    """Measurements of all GPUs.

    Args:
        framework: what measured them, such as `torch 2.11.0`.
        problem: why nothing, or not everything, was measured.
    """

    gpus: tuple[MeasuredGpu, ...] = ()
    framework: str | None = None
    problem: str | None = None


def read(machine: Machine) -> Reading:
    """Measure; takes about ten seconds per GPU."""
    gpus = read_gpus(machine)
    if gpus is None:
        return Reading(problem=machine.nvml.problem or "NVML lists no GPU")
    installed = machine.packages
    problem = f"{machine.python} has neither PyTorch nor TensorFlow"
    for name, version in (("torch", installed.torch), ("tensorflow", installed.tensorflow)):
        if version is None:
            continue
        measured, loaded = _measure(machine, name)
        begun = measured.one("framework")
        if begun is None or not begun["gpus"]:
            problem = f"{name} {version} {_failure_reason(measured)}"
            continue
        gpus = _measured_gpus(machine, gpus.states, measured, loaded, int(begun["gpus"]))
        return Reading(gpus, f"{name} {begun['version']}", measured.problem)
    return Reading(problem=problem)


def evaluate(reading: Reading) -> Iterator[Finding]:
    """D800 what was measured, D801 slow memory, D802 slow arithmetic, D803 slow copies from the host, D804 not measured,
    D805 a link that runs at an older PCIe generation under load."""
    if reading.problem is not None:
        yield Finding(
            "D804",
            Severity.NOTE,
            f"The measurement is incomplete: {reading.problem}."
            if reading.gpus
            else f"The GPUs could not be measured: {reading.problem}.",
            remedy="Use an interpreter whose PyTorch or TensorFlow sees a GPU: gpuproof doctor --full --python PATH",
        )
    for gpu in reading.gpus:
        if gpu.skipped is not None:
            yield Finding(
                "D804",
                Severity.NOTE,
                f"{gpu.label} was not measured{' completely' if gpu.rates else ''}: {gpu.skipped}.",
                location=Location(device=gpu.label),
            )
        if gpu.rates:
            yield from _evaluate_rates(gpu, reading.framework or "")


def _evaluate_rates(gpu: MeasuredGpu, framework: str) -> Iterator[Finding]:
    where = Location(device=gpu.label)
    lines = tuple(_rate_text(gpu, name, value) for name, value in gpu.rates)
    yield Finding(
        "D800", Severity.NOTE, f"{gpu.label}, measured with {framework}: {'; '.join(lines)}.", location=where
    )
    rates = dict(gpu.rates)
    if _is_below(rates.get("memory_gb_s"), gpu.sheet and gpu.sheet.memory_gb_s):
        yield Finding(
            "D801",
            Severity.WARNING,
            f"The memory of {gpu.label} is slow: {_rate_text(gpu, 'memory_gb_s', rates['memory_gb_s'])}.{_throttle_note(gpu)}",
            lines,
            _remedy(gpu),
            where,
        )
    capped = _is_power_capped(gpu)
    share = _CAPPED_SHARE if capped else HEALTHY_SHARE
    slow = [
        name
        for _, name in _KINDS
        if name in rates and _is_below(rates[name], _reachable_rate(gpu, name), share)
    ]
    if slow:
        slow_rates = "; ".join(_rate_text(gpu, name, rates[name]) for name in slow)
        yield Finding(
            "D802",
            Severity.NOTE if capped else Severity.WARNING,
            f"{gpu.label} computes slowly: {slow_rates}.{_throttle_note(gpu)}",
            lines,
            None if capped else _remedy(gpu),
            where,
        )
    yield from _evaluate_link(gpu, rates, lines)


def _evaluate_link(gpu: MeasuredGpu, rates: dict[str, float], lines: tuple[str, ...]) -> Iterator[Finding]:
    where = Location(device=gpu.label)
    behind = gpu.generation and gpu.generation_max and gpu.generation < gpu.generation_max
    if behind:
        yield Finding(
            "D805",
            Severity.WARNING,
            f"{gpu.label} uses PCIe {gpu.generation}.0 under load, although it supports {gpu.generation_max}.0: "
            "batches arrive at half the rate or less.",
            (f"PCIe generation {gpu.generation} under load, at most {gpu.generation_max}",),
            _remedy(gpu),
            where,
        )
    link = link_gb_s(gpu.generation, gpu.width)
    if not behind and gpu.pinned and _is_below(rates.get("h2d_gb_s"), link):
        yield Finding(
            "D803",
            Severity.WARNING,
            f"Copies from the host to {gpu.label} are slow: {rates['h2d_gb_s']:.1f} GB/s, although its link (PCIe "
            f"{gpu.generation}.0 x{gpu.width}) allows about {link:.1f}.",
            lines,
            "Check for other programs that copy data, and that the process runs on the CPUs next to the GPU "
            "(nvidia-smi topo -m).",
            where,
        )


def _rate_text(gpu: MeasuredGpu, name: str, value: float) -> str:
    """`fp16 61 TFLOP/s (87 % of 70)`."""
    if name == "h2d_gb_s":
        kind = "pinned" if gpu.pinned else "pageable"
        return f"host to device {value:.1f} GB/s ({kind})"
    what, _, unit = name.partition("_")
    unit = "TFLOP/s" if unit == "tflops" else "GB/s"
    sheet = getattr(gpu.sheet, name) if gpu.sheet else None
    share = f" ({value / sheet:.0%} of {sheet:g})" if sheet else ""
    return f"{what} {value:.{0 if value >= 100 else 1}f} {unit}{share}"


def _reachable_rate(gpu: MeasuredGpu, name: str) -> float | None:
    if gpu.sheet is None:
        return None
    figure: float | None = getattr(gpu.sheet, name)
    return figure * gpu.sheet.fp32_reachable if figure and name == "fp32_tflops" else figure


def _is_below(value: float | None, specified: float | None, share: float = HEALTHY_SHARE) -> bool:
    return value is not None and bool(specified) and value < share * (specified or 0)


def _is_power_capped(gpu: MeasuredGpu) -> bool:
    """Whether only its power limit slows it down, as with any GPU under enough load."""
    if gpu.throttle:
        return gpu.throttle == (_POWER_CAP,)
    return gpu.power_limit_w is not None and gpu.power_limit_w <= _SMALL_POWER_W


def _throttle_note(gpu: MeasuredGpu) -> str:
    if _is_power_capped(gpu):
        limit = f" of {gpu.power_limit_w:.0f} W" if gpu.power_limit_w else ""
        return f" Only its power limit{limit} slows it down, which is normal."
    return f" Clocks were lowered by: {', '.join(gpu.throttle)}." if gpu.throttle else ""


def _remedy(gpu: MeasuredGpu) -> str:
    return (
        f"nvidia-smi -q -d CLOCK,POWER,PERFORMANCE shows what slows {gpu.label.split(' (')[0]} down. If no other "
        "process used it, stop the instance and start it again, which moves it to other hardware."
    )


def _failure_reason(measured: Answer) -> str:
    broken = measured.one("broken")
    if broken is not None:
        return f"cannot be imported ({broken['error']})"
    return "sees no GPU" if measured.problem is None else str(measured.problem)


def _measure(machine: Machine, framework: str) -> tuple[Answer, Answer]:
    """Run the measurement, and watch the GPUs under load from another process."""
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(1) as pool:
        running = Path(folder) / "running"
        running.touch()
        own = own_environment(machine.environment)
        watcher = pool.submit(
            ask, sys.executable, "load", str(running), environment=own, seconds=TIMEOUT_SECONDS + 60
        )
        try:
            measured = machine.run_probe("measure", framework, seconds=TIMEOUT_SECONDS)
        finally:
            running.unlink()
        return measured, watcher.result()


def _measured_gpus(
    machine: Machine, gpus: tuple[GpuState, ...], measured: Answer, loaded: Answer, count: int
) -> tuple[MeasuredGpu, ...]:
    identity = read_instance_identity(machine)
    instance = machine.catalogue.instance(identity.instance_type) if identity.instance_type else None
    visible = machine.environment.get("CUDA_VISIBLE_DEVICES")
    uuids = [gpu.info.uuid for gpu in gpus]
    indexes = (
        parse_visible_devices(visible, uuids).indexes if visible is not None else tuple(range(len(gpus)))
    )
    measured_gpus: list[MeasuredGpu] = []
    for number in range(min(count, len(indexes))):
        if indexes[number] < 0:
            continue  # a MIG instance has no data sheet of its own
        gpu = gpus[indexes[number]]
        model = machine.catalogue.gpu(gpu.info.name or "")
        whole = model is not None and not gpu.health.mig
        rates = [row for row in measured.of("rate") if row["index"] == number]
        load = next((row for row in loaded.of("load") if row["index"] == gpu.index), None)
        skipped = next((row for row in measured.of("skipped") if row["index"] == number), None)
        measured_gpus.append(
            MeasuredGpu(
                gpu.label,
                tuple((str(rate["what"]), float(rate["value"])) for rate in rates),
                any(rate.get("pinned") for rate in rates),
                data_sheet(model, instance.fraction if instance else 1.0) if model and whole else None,
                tuple(load["throttle"]) if load else (),
                load["generation"] if load else None,
                gpu.health.pcie_generation_max,
                gpu.health.pcie_width,
                gpu.info.power_limit_w,
                str(skipped["why"]) if skipped else None,
            )
        )
    return tuple(measured_gpus)
