"""Measured rates of every GPU against its data sheet and its link."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from gpuproof.doctor.checks.benchmark.data_sheet import Sheet, link_gb_s, sheet_of
from gpuproof.doctor.checks.gpu_state.cuda_visible_devices import choose
from gpuproof.doctor.machine import Machine
from gpuproof.doctor.readings.gpus import GpuState, read_gpus
from gpuproof.doctor.readings.instance_identity import read_instance_identity
from gpuproof.findings import Finding, Location, Severity
from gpuproof.gpu.probe_process import Answer, ask, own_environment

SECONDS = 540.0
"""For all GPUs together; each takes some ten seconds."""
ENOUGH = 0.7
"""The share of its data sheet that a sound GPU reaches with large matrices and long vectors."""
_CAPPED = "power cap"
_SMALL_POWER_W = 75.0
"""Cards that live on the slot's power alone, such as T4 and L4, cannot hold their peak."""
_KINDS = (
    ("fp32", "fp32_tflops"),
    ("tf32", "tf32_tflops"),
    ("fp16", "fp16_tflops"),
    ("bf16", "bf16_tflops"),
)


@dataclass(frozen=True)
class Card:
    """One GPU, measured.

    Args:
        label: `GPU 0 (NVIDIA A10G)`.
        rates: `memory_gb_s`, `fp16_tflops` and so on, by name.
        pinned: whether the host-to-device rate is that of pinned memory, the only one that tells of the link.
        sheet: what it is meant to do; `None` where that is not known.
        throttle: reasons for lowered clocks, seen under load.
        generation: of the PCIe link under load.
        generation_max: what GPU and slot could use.
        width: lanes of the link.
        power_limit_w: watts that it may draw.
        skipped: why it was not measured, or not wholly.
    """

    label: str
    rates: tuple[tuple[str, float], ...] = ()
    pinned: bool = False
    sheet: Sheet | None = None
    throttle: tuple[str, ...] = ()
    generation: int | None = None
    generation_max: int | None = None
    width: int | None = None
    power_limit_w: float | None = None
    skipped: str | None = None


@dataclass(frozen=True)
class Reading:
    """What was measured.

    Args:
        framework: with what, such as `torch 2.11.0`.
        problem: why nothing could be.
    """

    cards: tuple[Card, ...] = ()
    framework: str | None = None
    problem: str | None = None


def read(machine: Machine) -> Reading:
    """Measures; takes some ten seconds for each GPU."""
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
            problem = f"{name} {version} {_why_not(measured)}"
            continue
        cards = _cards(machine, gpus.states, measured, loaded, int(begun["gpus"]))
        return Reading(cards, f"{name} {begun['version']}", measured.problem)
    return Reading(problem=problem)


def evaluate(reading: Reading) -> Iterator[Finding]:
    """D800 what was measured, D801 slow memory, D802 slow arithmetic, D803 a slow way from the host, D804 not measured,
    D805 a link of an older generation under load."""
    if reading.problem is not None:
        yield Finding(
            "D804",
            Severity.NOTE,
            f"Nothing more could be measured: {reading.problem}."
            if reading.cards
            else f"Nothing could be measured: {reading.problem}.",
            remedy="Name the interpreter of a PyTorch or TensorFlow that sees a GPU: gpuproof doctor --full --python PATH",
        )
    for card in reading.cards:
        if card.skipped is not None:
            yield Finding(
                "D804",
                Severity.NOTE,
                f"{card.label} was not measured{' wholly' if card.rates else ''}: {card.skipped}.",
                location=Location(device=card.label),
            )
        if card.rates:
            yield from _judge(card, reading.framework or "")


def _judge(card: Card, framework: str) -> Iterator[Finding]:
    where = Location(device=card.label)
    lines = tuple(_line(card, name, value) for name, value in card.rates)
    yield Finding(
        "D800", Severity.NOTE, f"{card.label}, measured with {framework}: {'; '.join(lines)}.", location=where
    )
    rates = dict(card.rates)
    if _falls_short(rates.get("memory_gb_s"), card.sheet and card.sheet.memory_gb_s):
        yield Finding(
            "D801",
            Severity.WARNING,
            f"The memory of {card.label} is slow: {_line(card, 'memory_gb_s', rates['memory_gb_s'])}.{_held(card)}",
            lines,
            _remedy(card),
            where,
        )
    slow = [name for _, name in _KINDS if name in rates and _falls_short(rates[name], _reach(card, name))]
    if slow:
        capped = _is_capped(card)
        said = "; ".join(_line(card, name, rates[name]) for name in slow)
        yield Finding(
            "D802",
            Severity.NOTE if capped else Severity.WARNING,
            f"{card.label} computes slowly: {said}.{_held(card)}",
            lines,
            None if capped else _remedy(card),
            where,
        )
    yield from _judge_link(card, rates, lines)


def _judge_link(card: Card, rates: dict[str, float], lines: tuple[str, ...]) -> Iterator[Finding]:
    where = Location(device=card.label)
    behind = card.generation and card.generation_max and card.generation < card.generation_max
    if behind:
        yield Finding(
            "D805",
            Severity.WARNING,
            f"Under load {card.label} talks PCIe {card.generation}.0 where it could talk {card.generation_max}.0: "
            "batches reach it at half the rate, or less.",
            (f"PCIe generation {card.generation} under load, at most {card.generation_max}",),
            _remedy(card),
            where,
        )
    link = link_gb_s(card.generation, card.width)
    if not behind and card.pinned and _falls_short(rates.get("h2d_gb_s"), link):
        yield Finding(
            "D803",
            Severity.WARNING,
            f"Data reaches {card.label} slowly: {rates['h2d_gb_s']:.1f} GB/s where its link (PCIe {card.generation}.0 "
            f"x{card.width}) carries about {link:.1f}.",
            lines,
            "Look for another program that copies much, and whether the process runs on the CPUs next to the GPU "
            "(nvidia-smi topo -m).",
            where,
        )


def _line(card: Card, name: str, value: float) -> str:
    """`fp16 61 TFLOP/s (87 % of 70)`."""
    if name == "h2d_gb_s":
        kind = "pinned" if card.pinned else "pageable"
        return f"host to device {value:.1f} GB/s ({kind})"
    what, _, unit = name.partition("_")
    unit = "TFLOP/s" if unit == "tflops" else "GB/s"
    sheet = getattr(card.sheet, name) if card.sheet else None
    share = f" ({value / sheet:.0%} of {sheet:g})" if sheet else ""
    return f"{what} {value:.{0 if value >= 100 else 1}f} {unit}{share}"


def _reach(card: Card, name: str) -> float | None:
    if card.sheet is None:
        return None
    figure: float | None = getattr(card.sheet, name)
    return figure * card.sheet.fp32_within_reach if figure and name == "fp32_tflops" else figure


def _falls_short(value: float | None, meant: float | None) -> bool:
    return value is not None and bool(meant) and value < ENOUGH * (meant or 0)


def _is_capped(card: Card) -> bool:
    """Whether its power limit and nothing else holds it back, as it does on any card that is given enough work."""
    if card.throttle:
        return card.throttle == (_CAPPED,)
    return card.power_limit_w is not None and card.power_limit_w <= _SMALL_POWER_W


def _held(card: Card) -> str:
    if _is_capped(card):
        limit = f" of {card.power_limit_w:.0f} W" if card.power_limit_w else ""
        return f" Its power limit{limit} holds it back; nothing is wrong with it."
    return f" It was held back by: {', '.join(card.throttle)}." if card.throttle else ""


def _remedy(card: Card) -> str:
    return (
        f"nvidia-smi -q -d CLOCK,POWER,PERFORMANCE shows what holds {card.label.split(' (')[0]} back. If nothing else "
        "ran on it, stop the instance and start it again, which moves it to other hardware."
    )


def _why_not(measured: Answer) -> str:
    broken = measured.one("broken")
    if broken is not None:
        return f"cannot be imported ({broken['error']})"
    return "sees no GPU" if measured.problem is None else str(measured.problem)


def _measure(machine: Machine, framework: str) -> tuple[Answer, Answer]:
    """The rates, and how the GPUs were meanwhile."""
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(1) as beside:
        running = Path(folder) / "running"
        running.touch()
        own = own_environment(machine.environment)
        watching = beside.submit(
            ask, sys.executable, "load", str(running), environment=own, seconds=SECONDS + 60
        )
        try:
            measured = machine.run_probe("measure", framework, seconds=SECONDS)
        finally:
            running.unlink()
        return measured, watching.result()


def _cards(
    machine: Machine, gpus: tuple[GpuState, ...], measured: Answer, loaded: Answer, count: int
) -> tuple[Card, ...]:
    place = read_instance_identity(machine)
    instance = machine.catalogue.instance(place.instance_type) if place.instance_type else None
    visible = machine.environment.get("CUDA_VISIBLE_DEVICES")
    uuids = [gpu.info.uuid for gpu in gpus]
    indexes = choose(visible, uuids).chosen if visible is not None else tuple(range(len(gpus)))
    cards: list[Card] = []
    for number in range(min(count, len(indexes))):
        if indexes[number] < 0:
            continue  # an instance of a GPU has no data sheet of its own
        gpu = gpus[indexes[number]]
        model = machine.catalogue.gpu(gpu.info.name or "")
        whole = model is not None and not gpu.health.mig
        rates = [one for one in measured.of("rate") if one["index"] == number]
        load = next((one for one in loaded.of("load") if one["index"] == gpu.index), None)
        skipped = next((one for one in measured.of("skipped") if one["index"] == number), None)
        cards.append(
            Card(
                gpu.label,
                tuple((str(one["what"]), float(one["value"])) for one in rates),
                any(one.get("pinned") for one in rates),
                sheet_of(model, instance.fraction if instance else 1.0) if model and whole else None,
                tuple(load["throttle"]) if load else (),
                load["generation"] if load else None,
                gpu.health.pcie_generation_max,
                gpu.health.pcie_width,
                gpu.info.power_limit_w,
                str(skipped["why"]) if skipped else None,
            )
        )
    return tuple(cards)
