"""The table of `gpuproof gpus`: rows, sorting, output formats."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from gpuproof.catalogue import Catalogue, Gpu, Instance, InstanceQuery, Price
from gpuproof.catalogue.prices import DEFAULT_REGION, OLD, is_old, mark
from gpuproof.catalogue.search import natural_sort_key
from gpuproof.util.humanize import format_bytes

if TYPE_CHECKING:
    from datetime import date

GIB = 2**30
_MOST_NAMED = 4
"""The legend names the regions up to this number."""


class Row(NamedTuple):
    """One instance type with its prices.

    Attributes:
        per_gpu: USD per hour and physical GPU, on the queried service.
        per_tflop: USD per hour and 10^12 dense bfloat16 operations a second; None if the GPU has no BF16.
        support: `native`, `ptx` or `unknown` if a framework was queried.
    """

    region: str
    instance: Instance
    gpu: Gpu | None
    ec2: Price | None
    sagemaker: Price | None
    per_gpu: float | None
    per_tflop: float | None
    support: str


def make_rows(catalogue: Catalogue, query: InstanceQuery) -> list[Row]:
    """Returns the matching types with their prices."""
    return [_row(catalogue, query, instance) for instance in catalogue.search(query)]


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
        region=region,
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
    # A type without a price on SageMaker is ordered by what it costs on EC2.
    price = (row.sagemaker or row.ec2) if row.instance.on_sagemaker else row.ec2
    return _known(price.usd_per_hour if price else None)


SORT_KEYS: dict[str, Callable[[Row], Any]] = {
    "price": lambda row: (_price_of(row), natural_sort_key(row.instance.name), row.region),
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


COLUMNS: dict[str, Callable[[Row, date], str]] = {
    "TYPE": lambda row, _: row.instance.name,
    "REGION": lambda row, _: row.region,
    "GPUS": lambda row, _: f"{fraction(row.instance)} {row.instance.gpu_model}",
    "EACH": lambda row, _: gib(row.instance.gpu_memory),
    "ARCH": lambda row, _: _arch(row),
    "VCPU": lambda row, _: "-" if row.instance.vcpus is None else str(row.instance.vcpus),
    "RAM": lambda row, _: "-" if row.instance.memory is None else f"{row.instance.memory / GIB:.0f} GiB",
    "EC2 $/H": lambda row, today: money(row.ec2, today),
    "SAGEMAKER": lambda row, today: money(row.sagemaker, today),
    "$/GPU": lambda row, _: "-" if row.per_gpu is None else f"{row.per_gpu:.2f}",
    "$/TFLOP": lambda row, _: "-" if row.per_tflop is None else f"{row.per_tflop:.4f}",
    "STATUS": lambda row, _: row.instance.status,
    "RUNS": lambda row, _: row.support,
}
"""The table's columns, by header."""

TEXT_COLUMNS = {"TYPE", "REGION", "GPUS", "ARCH", "STATUS", "RUNS"}
"""Left-aligned columns; numbers are right-aligned."""

OPTIONAL_COLUMNS = ("RAM", "VCPU", "$/TFLOP", "$/GPU", "ARCH")
"""Columns that are dropped in a narrow terminal, in this order."""


def _table(queries: Sequence[InstanceQuery], rows: Sequence[Row], today: date) -> str:
    from gpuproof.settings import colour
    from gpuproof.terminal.style import DIM, YELLOW, Style
    from gpuproof.terminal.table import render_table, table_width, terminal_width

    if not rows:
        return ""
    query = queries[0]
    absent = {"RUNS"} if not query.builds else set[str]()
    absent |= {"REGION"} if len(queries) == 1 else set()
    absent |= {"SAGEMAKER"} if query.service == "ec2" or query.market == "spot" else set()
    headers = [header for header in COLUMNS if header not in absent]

    def cells() -> list[list[str]]:
        return [[COLUMNS[header](row, today) for header in headers] for row in rows]

    dropped: list[str] = []
    for header in OPTIONAL_COLUMNS if terminal_width() else ():
        if table_width([headers, *cells()]) <= terminal_width():
            break
        headers.remove(header)
        dropped.append(header)
    right = [index for index, header in enumerate(headers) if header not in TEXT_COLUMNS]

    def code(row: int, column: int) -> str:
        if headers[column] == "STATUS":
            return {"offered": "", "legacy": YELLOW}.get(rows[row].instance.status, DIM)
        return YELLOW if headers[column] == "RUNS" and rows[row].support != "native" else ""

    table = render_table(headers, cells(), right, Style(colour()), code)
    return f"{table}\n\n{_legend(queries, rows, dropped, today)}\n"


def fraction(instance: Instance) -> str:
    """The number of GPUs: `4`, or `1/8` of one."""
    if instance.fraction == 1.0 or instance.gpu_count != 1:
        return str(instance.gpu_count)
    return f"1/{round(1 / instance.fraction)}"


def gib(size: int) -> str:
    """GPU memory in GiB with one decimal; EC2 reports less than the datasheet."""
    return format_bytes(size) if size else "-"


def money(price: Price | None, today: date) -> str:
    """USD with two decimals; `~` before a derived price, `*` after one older than a year; `-` if unknown."""
    if price is None:
        return "-"
    return f"{mark(price)}{price.usd_per_hour:.2f}{OLD if is_old(price, today) else ''}"


def _legend(
    queries: Sequence[InstanceQuery], rows: Sequence[Row], dropped: Sequence[str], today: date
) -> str:
    query = queries[0]
    regions = (
        ", ".join(query.region or DEFAULT_REGION for query in queries) if len(queries) <= _MOST_NAMED else ""
    )
    market = "spot, the cheapest zone" if query.market == "spot" else "on demand"
    prices = [price for row in rows for price in (row.ec2, row.sagemaker) if price]
    dates = sorted({price.as_of for price in prices})
    span = f", read {' to '.join(dict.fromkeys((dates[0], dates[-1])))}" if dates else ""
    marks = "~ is derived from similar prices"
    if any(is_old(price, today) for price in prices):
        marks += f", {OLD} more than a year old"
    place = "SageMaker's" if rows[0].instance.on_sagemaker else "EC2's"
    lines = [
        f"USD per hour in {regions or f'{len(queries)} regions'}, {market}{span}; {marks}.",
        "A listed price does not guarantee capacity.",
        f"$/GPU and $/TFLOP use {place} price; TFLOP: 10^12 dense bfloat16 operations a second, - without BF16.",
        "`gpuproof gpus TYPE` prints everything about one type; `gpuproof catalogue refresh` updates the prices.",
    ]
    if dropped:
        lines.append(f"Columns hidden in this narrow terminal: {', '.join(dropped)}; --format csv has all.")
    return "\n".join(lines)


def _json(queries: Sequence[InstanceQuery], rows: Sequence[Row]) -> str:
    import json

    regions = [query.region or DEFAULT_REGION for query in queries]
    document = {
        "version": 1,
        "region": regions[0],
        "regions": regions,
        "market": queries[0].market,
        "instances": [as_document(row) for row in rows],
    }
    return json.dumps(document, indent=2) + "\n"


def as_document(row: Row) -> dict[str, Any]:
    """A row as a JSON object: bytes, USD per hour, and the source of each price."""
    instance, gpu = row.instance, row.gpu
    return {
        "type": instance.name,
        "region": row.region,
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


FORMATS: dict[str, Callable[[Sequence[InstanceQuery], Sequence[Row], date], str]] = {
    "text": _table,
    "json": lambda queries, rows, _: _json(queries, rows),
    "csv": lambda _queries, rows, _today: _csv(rows),
}
"""Output formats of `gpus`."""
