"""The figures of `bench/serve_gpu.py` as Markdown for people and as JSON for programs."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from . import report
from .generators import Reading
from .gpu_utilization import Use
from .report import Row, line

_HOW = (
    "The bare loop is one process that loads the model with the same handler and the same flags, and then copies a decoded "
    "batch to the device, predicts, and copies the answer back, again and again; its p50 and p99 are a batch's. "
    "`gpuproof serve` has that handler with `batch = True`, one predictor, requests of one item each, a closed loop on the "
    "same machine. Images come as decoders give them, in uint8, and are normalised on the device; texts as token ids "
    "in int64. Weights are random, with a fixed seed. One thread of PyTorch on the CPU. fp32 is PyTorch's default: "
    "TF32 in convolutions, not in matrix products. Figures are medians of rounds; where there are several, the bare "
    "loop ran before the server and after it. Before it was measured, the server answered eight different items singly and together; the largest "
    "difference from the bare loop's answers is a share of their largest number. GPU busy is NVML's utilisation, which "
    "counts time in which any kernel ran; memory is what the whole device had in use."
)


@dataclass
class GpuRow:
    """One way to serve a network.

    Args:
        served: the server's readings, by clients; its name is the way's.
        flags: of `gpuproof serve`.
        bare: the bare loop's readings, by batch size; `rate` counts items, `p50` and `p99` are a batch's.
        bare_use: of the GPU, by batch size, one a reading.
        served_use: the same by clients.
        difference: between the server's answers and the bare loop's, as a share of the largest.
        parameters: of the network.
    """

    served: Row
    flags: str
    bare: dict[int, list[Reading]] = field(default_factory=dict[int, list[Reading]])
    bare_use: dict[int, list[Use]] = field(default_factory=dict[int, list[Use]])
    served_use: dict[int, list[Use]] = field(default_factory=dict[int, list[Use]])
    difference: float = 0.0
    parameters: int = 0

    @property
    def name(self) -> str:
        """The name of the variant."""
        return self.served.name


@dataclass
class GpuTable:
    """One network.

    Args:
        name: of the network.
        request: shape and type of one request's array.
        bytes: of its body.
        clients, batches: that were measured.
        where: device, driver, PyTorch, machine and load generator.
        when: the day, and what else the machine did.
        rows: the ways.
    """

    name: str
    request: str
    bytes: int
    clients: tuple[int, ...]
    batches: tuple[int, ...]
    where: str
    when: str
    rows: list[GpuRow] = field(default_factory=list[GpuRow])

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> GpuTable:
        """Restore a table from the result of `as_json`."""
        given = dict(value)
        given["clients"], given["batches"] = tuple(value["clients"]), tuple(value["batches"])
        given["rows"] = [_row_from_json(row) for row in value["rows"]]
        return cls(**given)


def together(before: Sequence[GpuTable], now: Sequence[GpuTable]) -> list[GpuTable]:
    """Merge new results with earlier ones of the same device and versions."""
    found: list[GpuTable] = []
    fresh = {table.name: table for table in now}
    for old in before:
        new = fresh.pop(old.name, None)
        if new is None:
            found.append(old)
        elif (old.where, old.clients, old.batches) != (new.where, new.clients, new.batches):
            found.append(new)
        else:
            rows = {row.name: row for row in new.rows}
            kept = [rows.pop(row.name, row) for row in old.rows]
            found.append(replace(new, rows=[*kept, *rows.values()]))
    return [*found, *fresh.values()]


def as_json(tables: Sequence[GpuTable]) -> dict[str, Any]:
    """Everything that was measured."""
    return {"version": 1, "networks": [asdict(table) for table in tables]}


def as_markdown(tables: Sequence[GpuTable]) -> str:
    """Two tables for each network: the figures and the GPU's utilization."""
    lines = ["# `gpuproof serve` compared with the bare loop", "", _HOW, ""]
    for table in tables:
        lines += _table(table)
    return "\n".join(lines)


def over_bare(row: GpuRow, clients: int, batch: int) -> float | None:
    """The ratio of the server's to the bare loop's items a second (medians of the rounds), or `None` if one is missing."""
    bare = _median(row.bare.get(batch, []), "rate")
    served = report.rate(row.served, clients)
    return served / bare if served and bare else None


def _table(table: GpuTable) -> list[str]:
    lines = [
        f"## {table.name}: {max((row.parameters for row in table.rows), default=0):,} parameters; a request is {table.request}, {table.bytes:,} bytes of NPY",
        "",
        f"{table.where}.",
        "",
        table.when,
        "",
    ]
    pairs = list(
        zip((table.clients[0], table.clients[-1]), (table.batches[0], table.batches[-1]), strict=True)
    )
    heads = [
        "flags",
        *(f"bare, batches of {batch}: items/s, p50, p99 ms" for batch in table.batches),
        *(f"{_clients(count)}: items/s, p50, p99 ms" for count in table.clients),
        *(f"{_clients(count)} over bare, batches of {batch}" for count, batch in pairs),
        f"server's CPU µs an item at {table.clients[-1]}",
        "largest difference",
    ]
    lines += line(heads) + line(["---"] * len(heads))
    measured = [row for row in table.rows if not row.served.skipped]
    for row in measured:
        cells = [row.flags]
        cells += [_figures(row.bare.get(batch, [])) for batch in table.batches]
        cells += [_figures(row.served.readings.get(count, [])) for count in table.clients]
        cells += [_share(over_bare(row, *pair)) for pair in pairs]
        cells.append(f"{report.cpu(row.served, table.clients[-1]) * 1e6:,.0f}")
        cells.append(f"{row.difference:.1e}")
        lines += line(cells)
    lines.append("")
    if any(row.served_use for row in measured):
        heads = [
            "GPU busy %, memory GiB",
            *(f"bare, batches of {batch}" for batch in table.batches),
            *(_clients(count) for count in table.clients),
        ]
        lines += line(heads) + line(["---"] * len(heads))
        for row in measured:
            uses = [row.bare_use.get(batch, []) for batch in table.batches]
            uses += [row.served_use.get(count, []) for count in table.clients]
            lines += line([row.flags, *map(_use, uses)])
        lines.append("")
    skipped = [f"{row.flags}: not measured: {row.served.skipped}" for row in table.rows if row.served.skipped]
    return [*lines, *skipped, ""] if skipped else lines


def _clients(count: int) -> str:
    return "1 client" if count == 1 else f"{count} clients"


def _figures(readings: Sequence[Reading]) -> str:
    if not readings:
        return "-"
    rate, p50, p99 = (_median(readings, name) for name in ("rate", "p50", "p99"))
    failed = sum(reading.failed for reading in readings)
    return f"{rate:,.0f}, {p50 * 1e3:.1f}, {p99 * 1e3:.1f}" + (f" ({failed} failed)" if failed else "")


def _share(ratio: float | None) -> str:
    return "-" if ratio is None else f"{ratio:.2f}"


def _use(uses: Sequence[Use]) -> str:
    busy = [use.utilization for use in uses if use.utilization is not None]
    memory = [use.memory for use in uses if use.memory is not None]
    words = [
        f"{statistics.median(busy):.0f}" if busy else "-",
        f"{max(memory) / 2**30:.1f}" if memory else "-",
    ]
    return ", ".join(words)


def _median(readings: Sequence[Reading], name: str) -> float:
    return statistics.median(getattr(reading, name) for reading in readings) if readings else 0.0


def _row_from_json(value: Mapping[str, Any]) -> GpuRow:
    given = dict(value)
    given["served"] = report.row_from_json(value["served"])
    given["bare"] = {
        int(key): [Reading(**reading) for reading in readings] for key, readings in value["bare"].items()
    }
    for name in ("bare_use", "served_use"):
        given[name] = {int(key): [Use(**use) for use in uses] for key, uses in value[name].items()}
    return GpuRow(**given)
