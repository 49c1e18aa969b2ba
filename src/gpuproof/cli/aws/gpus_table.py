"""The table of `gpuproof gpus`: rows, sorting, output formats."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from gpuproof.catalogue import Catalogue, Gpu, Instance, InstanceQuery, Price
from gpuproof.catalogue.prices import DEFAULT_REGION
from gpuproof.catalogue.search import MIB, natural_sort_key
from gpuproof.util.humanize import format_bytes

GIB = 2**30


class Row(NamedTuple):
    """One instance type with its prices.

    Attributes:
        per_gpu: USD per hour and physical GPU, on the queried service.
        per_tflop: USD per hour and 10^12 dense bfloat16 operations a second; None if the GPU has no BF16.
        support: `native` or `ptx` if a framework was queried.
    """

    instance: Instance
    gpu: Gpu | None
    ec2: Price | None
    sagemaker: Price | None
    per_gpu: float | None
    per_tflop: float | None
    support: str


def make_rows(catalogue: Catalogue, query: InstanceQuery) -> list[Row]:
    """Returns the matching types with their prices."""
    return [_row(catalogue, query, one) for one in catalogue.search(query)]


def _row(catalogue: Catalogue, query: InstanceQuery, instance: Instance) -> Row:
    region = query.region or DEFAULT_REGION
    gpu = catalogue.tables.gpus.get(instance.gpu_model or "")
    ec2 = catalogue.price(instance.ec2_type, region, market=query.market)
    sagemaker = None
    if query.service != "ec2" and query.market == "on-demand":
        sagemaker = catalogue.price(f"ml.{instance.ec2_type}", region, use=query.use)
    counts = sagemaker if instance.on_sagemaker else ec2
    per_gpu = counts.usd_per_hour / instance.whole_gpus if counts else None
    tflops = gpu.bf16_tflops if gpu else None
    build = next((build for build in query.builds if build.arch == instance.arch), None)
    return Row(
        instance=instance,
        gpu=gpu,
        ec2=ec2,
        sagemaker=sagemaker,
        per_gpu=per_gpu,
        per_tflop=per_gpu / tflops if per_gpu and tflops else None,
        support=catalogue.runs_on(build, gpu).kind if build else "",
    )


def _known(value: float | None) -> float:
    return float("inf") if value is None else value


def _price_of(row: Row) -> float:
    price = row.sagemaker if row.instance.on_sagemaker else row.ec2
    return _known(price.usd_per_hour if price else None)


SORT_KEYS: dict[str, Callable[[Row], Any]] = {
    "price": lambda row: (_price_of(row), natural_sort_key(row.instance.name)),
    "per-gpu": lambda row: (_known(row.per_gpu), _price_of(row)),
    "per-tflop": lambda row: (_known(row.per_tflop), _price_of(row)),
    "memory": lambda row: (-row.instance.gpu_memory, _price_of(row)),
    "total-memory": lambda row: (-row.instance.total_gpu_memory, _price_of(row)),
    "gpus": lambda row: (-row.instance.whole_gpus, _price_of(row)),
    "vcpus": lambda row: (-(row.instance.vcpus or 0), _price_of(row)),
    "name": lambda row: natural_sort_key(row.instance.name),
}
"""The sort key of each `--sort`: prices and names ascending, sizes descending, unknown last."""


def _arch(row: Row) -> str:
    if row.gpu is None:
        return "-"
    capability = ".".join(map(str, row.gpu.compute_capability or ()))
    host = "" if row.instance.arch == "x86_64" else row.instance.arch
    return " ".join(word for word in (row.gpu.architecture, capability, host) if word)


COLUMNS: dict[str, Callable[[Row], str]] = {
    "TYPE": lambda row: row.instance.name,
    "GPUS": lambda row: f"{fraction(row.instance)} {row.instance.gpu_model}",
    "EACH": lambda row: gib(row.instance.gpu_memory),
    "ARCH": _arch,
    "VCPU": lambda row: "-" if row.instance.vcpus is None else str(row.instance.vcpus),
    "RAM": lambda row: "-" if row.instance.memory is None else f"{row.instance.memory / GIB:.0f} GiB",
    "EC2 $/H": lambda row: money(row.ec2),
    "SAGEMAKER": lambda row: money(row.sagemaker),
    "$/GPU": lambda row: "-" if row.per_gpu is None else f"{row.per_gpu:.2f}",
    "$/TFLOP": lambda row: "-" if row.per_tflop is None else f"{row.per_tflop:.4f}",
    "STATUS": lambda row: row.instance.status,
    "RUNS": lambda row: row.support,
}
"""The table's columns, by header."""

TEXT_COLUMNS = {"TYPE", "GPUS", "ARCH", "STATUS", "RUNS"}
"""Left-aligned columns; numbers are right-aligned."""

OPTIONAL_COLUMNS = ("RAM", "VCPU", "$/TFLOP", "$/GPU", "ARCH")
"""Columns that are dropped in a narrow terminal, in this order."""


def _table(query: InstanceQuery, rows: Sequence[Row]) -> str:
    from gpuproof.terminal.table import render_table, table_width, terminal_width

    if not rows:
        return ""
    headers = [header for header in COLUMNS if header != "RUNS" or query.builds]
    if query.service == "ec2" or query.market == "spot":
        headers.remove("SAGEMAKER")

    def cells() -> list[list[str]]:
        return [[COLUMNS[header](row) for header in headers] for row in rows]

    dropped: list[str] = []
    for header in OPTIONAL_COLUMNS:
        if not terminal_width() or table_width([headers, *cells()]) <= terminal_width():
            break
        headers.remove(header)
        dropped.append(header)
    right = [index for index, header in enumerate(headers) if header not in TEXT_COLUMNS]
    return f"{render_table(headers, cells(), right)}\n\n{_legend(query, rows, dropped)}\n"


def fraction(instance: Instance) -> str:
    """The number of GPUs: `4`, or `1/8` of one."""
    if instance.fraction == 1.0 or instance.gpu_count != 1:
        return str(instance.gpu_count)
    return f"1/{round(1 / instance.fraction)}"


def gib(size: int) -> str:
    """GPU memory in GiB with one decimal; EC2 reports less than the datasheet."""
    return format_bytes(size) if size else "-"


def money(price: Price | None) -> str:
    """USD with two decimals; `~` before a derived price; `-` if unknown."""
    if price is None:
        return "-"
    return f"{'~' if price.kind == 'derived' else ''}{price.usd_per_hour:.2f}"


def _legend(query: InstanceQuery, rows: Sequence[Row], dropped: Sequence[str]) -> str:
    region = query.region or DEFAULT_REGION
    market = "spot, the cheapest zone" if query.market == "spot" else "on demand"
    dates = sorted({price.as_of for row in rows for price in (row.ec2, row.sagemaker) if price})
    span = f", read {dates[0]} to {dates[-1]}" if dates else ""
    place = "SageMaker's" if rows[0].instance.on_sagemaker else "EC2's"
    lines = [
        f"USD per hour in {region}, {market}{span}; ~ is derived. A listed price does not guarantee capacity.",
        f"$/GPU and $/TFLOP use {place} price; TFLOP: 10^12 dense bfloat16 operations a second, - without BF16.",
        "`gpuproof gpus show TYPE` prints everything about one type; `gpuproof catalogue refresh` updates the prices.",
    ]
    if dropped:
        lines.append(f"Columns hidden in this narrow terminal: {', '.join(dropped)}; --format csv has all.")
    return "\n".join(lines)


def _json(query: InstanceQuery, rows: Sequence[Row]) -> str:
    import json

    document = {
        "version": 1,
        "region": query.region or DEFAULT_REGION,
        "market": query.market,
        "instances": [as_document(row) for row in rows],
    }
    return json.dumps(document, indent=2) + "\n"


def as_document(row: Row) -> dict[str, Any]:
    """A row as a JSON object: bytes, USD per hour, and the source of each price."""
    instance, gpu = row.instance, row.gpu
    return {
        "type": instance.name,
        "ec2_type": instance.ec2_type,
        "status": instance.status,
        "gpu": instance.gpu_model,
        "gpu_count": instance.gpu_count,
        "gpu_fraction": instance.fraction,
        "gpu_memory_bytes": instance.gpu_memory,
        "gpu_architecture": gpu.architecture if gpu else None,
        "compute_capability": ".".join(map(str, gpu.compute_capability))
        if gpu and gpu.compute_capability
        else None,
        "arch": instance.arch,
        "vcpus": instance.vcpus,
        "memory_bytes": instance.memory,
        "network_gbps": instance.network_gbps,
        "efa_interfaces": instance.efa_interfaces,
        "local_disk_bytes": instance.local_disk,
        "ec2_price": price_document(row.ec2),
        "sagemaker_price": price_document(row.sagemaker),
        "usd_per_gpu_hour": row.per_gpu,
        "usd_per_bf16_tflop_hour": row.per_tflop,
        "framework_support": row.support or None,
    }


def price_document(price: Price | None) -> dict[str, Any] | None:
    """A price as a JSON object."""
    if price is None:
        return None
    return {
        "usd_per_hour": price.usd_per_hour,
        "usd_per_hour_max": price.usd_per_hour_max,
        "region": price.region,
        "use": price.use,
        "market": price.market,
        "kind": price.kind,
        "as_of": price.as_of,
        "source": price.source,
    }


def _csv(rows: Sequence[Row]) -> str:
    import csv
    import io

    out = io.StringIO()
    flat = [_flat(as_document(row)) for row in rows]
    if flat:
        writer = csv.DictWriter(out, fieldnames=list(flat[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(flat)
    return out.getvalue()


def _flat(document: dict[str, Any]) -> dict[str, Any]:
    prices = ("ec2_price", "sagemaker_price")
    flat = {key: value for key, value in document.items() if key not in prices}
    for key in prices:
        for part in ("usd_per_hour", "kind", "as_of"):
            flat[f"{key}_{part}"] = (document[key] or {}).get(part)
    return flat


FORMATS: dict[str, Callable[[InstanceQuery, Sequence[Row]], str]] = {
    "table": _table,
    "json": _json,
    "csv": lambda _, rows: _csv(rows),
}
"""Output formats of `gpus`."""


def hints(catalogue: Catalogue, query: InstanceQuery) -> list[str]:
    """Hints for the user: GB and GiB confused, unknown region, no result."""
    found: list[str] = []
    if query.region and not catalogue.region(query.region):
        found.append(_unknown_region(catalogue, query.region))
    if query.gpu_memory and query.gpu_memory.low:
        low = query.gpu_memory.low.bytes
        short = sorted(
            {
                f"{gpu.name} ({one.gpu_memory // MIB} MiB)"
                for one in catalogue.tables.gpu_instances.values()
                if (gpu := catalogue.tables.gpus.get(one.gpu_model or ""))
                and one.fraction == 1.0
                and one.status == "offered"
                and one.gpu_memory // MIB < low // MIB <= gpu.memory_gb * GIB // MIB
            }
        )
        if short:
            found.append(f"Sold with as many GB, but less than {query.gpu_memory.low}: {', '.join(short)}.")
    found += [
        f"{path} cannot be read; using the shipped data. To replace it: gpuproof catalogue refresh"
        for path in catalogue.tables.ignored
    ]
    if not catalogue.search(query):
        found.append("No instance types match. Drop a filter, or try --include-retired.")
    return found


def _unknown_region(catalogue: Catalogue, region: str) -> str:
    from difflib import get_close_matches  # only for a mistake

    if near := get_close_matches(region, catalogue.regions(), n=1, cutoff=0.85):
        meant = f"Did you mean {near[0]}?"
    else:
        meant = f"To check it: gpuproof catalogue refresh --region {region}"
    return f"Unknown region '{region}'; availability was not checked. {meant}"


def print_warnings(warnings: Sequence[str]) -> None:
    """Prints warnings to standard error, to keep the output machine-readable."""
    sys.stdout.flush()
    for warning in warnings:
        print(f"gpuproof: {warning}", file=sys.stderr)
